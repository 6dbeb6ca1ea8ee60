package lockdown

func supported(names []string) []string { return names }
