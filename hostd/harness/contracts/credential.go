package contracts

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// codexForm reads an auth.json of Codex 0.147.0: an API key, or the tokens of
// a ChatGPT login. The access token is a JWT whose exp says when it runs out.
func codexForm(b []byte) Form {
	var f struct {
		Key    *string `json:"OPENAI_API_KEY"`
		Tokens *struct {
			ID      string `json:"id_token"`
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		} `json:"tokens"`
	}
	if !object(b) || json.Unmarshal(b, &f) != nil {
		return Form{}
	}
	if t := f.Tokens; t != nil && t.Access != "" && t.Refresh != "" {
		return Form{Usable: true, Expires: jwtExpiry(t.Access)}
	}
	if f.Tokens == nil && f.Key != nil && strings.TrimSpace(*f.Key) != "" {
		return Form{Usable: true}
	}
	return Form{Blank: true}
}

// claudeForm reads a .credentials.json of Claude Code 2.1.222.
func claudeForm(b []byte) Form {
	var f struct {
		OAuth *struct {
			Access  string `json:"accessToken"`
			Refresh string `json:"refreshToken"`
			Expires int64  `json:"expiresAt"` // milliseconds since 1970
		} `json:"claudeAiOauth"`
	}
	if !object(b) || json.Unmarshal(b, &f) != nil {
		return Form{}
	}
	if f.OAuth == nil || f.OAuth.Access == "" || f.OAuth.Refresh == "" {
		return Form{Blank: true}
	}
	form := Form{Usable: true}
	if f.OAuth.Expires > 0 {
		form.Expires = time.UnixMilli(f.OAuth.Expires)
	}
	return form
}

// opaqueForm is for credentials of which nothing is known: anything but white
// space is usable, and nothing is said about when it ends.
func opaqueForm(b []byte) Form {
	if strings.TrimSpace(string(b)) == "" {
		return Form{Blank: true}
	}
	return Form{Usable: true}
}

func object(b []byte) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(b, &m) == nil && m != nil
}

// jwtExpiry reads exp without verifying anything: it decides only when to
// serialize launches. Zero when there is none.
func jwtExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(body, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}
