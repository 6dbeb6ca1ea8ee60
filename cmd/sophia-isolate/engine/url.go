package engine

import (
	"encoding/json"
	"net/url"
	"strings"
)

// defaultPorts of the schemes that the URL standard calls special.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// parts are a URL's, as the URL standard names and writes them.
type parts struct {
	Href     string `json:"href"`
	Origin   string `json:"origin"`
	Protocol string `json:"protocol"`
	Slashes  bool   `json:"slashes"`
	Username string `json:"username"`
	Password string `json:"password"`
	Hostname string `json:"hostname"`
	Port     string `json:"port"`
	Pathname string `json:"pathname"`
	Search   string `json:"search"`
	Hash     string `json:"hash"`
}

// parseURL returns the parts as JSON, or "" for what is not an absolute URL.
func parseURL(href, base string) string {
	u, err := url.Parse(strings.TrimSpace(href))
	if err != nil {
		return ""
	}
	if base != "" {
		b, err := url.Parse(strings.TrimSpace(base))
		if err != nil || b.Scheme == "" {
			return ""
		}
		u = b.ResolveReference(u)
	}
	if u.Scheme == "" {
		return ""
	}
	port, special := defaultPorts[u.Scheme]
	if special && u.Host == "" {
		return ""
	}
	p := parts{Protocol: u.Scheme + ":", Origin: "null", Hostname: strings.ToLower(u.Hostname()), Port: u.Port(), Slashes: u.Opaque == "" && (special || u.Host != "" || u.Scheme == "file")}
	if strings.Contains(p.Hostname, ":") {
		p.Hostname = "[" + p.Hostname + "]"
	}
	if p.Port == port {
		p.Port = ""
	}
	if u.User != nil {
		name, password, both := strings.Cut(u.User.String(), ":")
		p.Username = name
		if both {
			p.Password = password
		}
	}
	if p.Pathname = u.Opaque; p.Pathname == "" {
		if p.Slashes {
			u = u.JoinPath() // removes dot segments
		}
		p.Pathname = u.EscapedPath()
		if p.Pathname == "" && p.Slashes {
			p.Pathname = "/"
		}
	}
	if u.RawQuery != "" {
		p.Search = "?" + strings.ReplaceAll(u.RawQuery, " ", "%20")
	}
	if f := u.EscapedFragment(); f != "" {
		p.Hash = "#" + f
	}
	host := p.Hostname
	if p.Port != "" {
		host += ":" + p.Port
	}
	if special {
		p.Origin = p.Protocol + "//" + host
	}
	p.Href = p.Protocol
	if p.Slashes {
		p.Href += "//"
	}
	if p.Username != "" || p.Password != "" {
		p.Href += p.Username
		if p.Password != "" {
			p.Href += ":" + p.Password
		}
		p.Href += "@"
	}
	p.Href += host + p.Pathname + p.Search + p.Hash
	b, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return string(b)
}
