// Package credentials keeps those of a server's URI out of what programs print.
package credentials

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Options returns the options that uri gives a client. The error neither contains nor wraps the driver's, which
// quotes what it could not parse.
func Options(uri string) (*options.ClientOptions, error) {
	opts := options.Client().ApplyURI(uri)
	err := opts.Validate()
	if err == nil {
		return opts, nil
	}
	if lookup := (&net.DNSError{}); errors.As(err, &lookup) {
		return nil, fmt.Errorf("look up %s: %s", Hide(lookup.Name, uri), lookup.Err)
	}
	return nil, errors.New("the URI is not valid (the reason may contain the password and is not shown; special characters in user and password must be percent-encoded)")
}

var inURL = regexp.MustCompile(`(://)[^\s"']*@`)

// Hide replaces in text the user and password of every URL, and the secrets of uris wherever they are, because a
// server or proxy may have echoed them. The uris need not be valid.
func Hide(text string, uris ...string) string {
	for _, uri := range uris {
		for _, secret := range secrets(uri) {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return inURL.ReplaceAllString(text, "${1}***@")
}

// secrets are the password, the properties of the authentication and the password of the key in uri, as they are
// written there and as they are meant.
func secrets(uri string) (all []string) {
	add := func(secret string) {
		if secret == "" {
			return
		}
		all = append(all, secret)
		if plain, err := url.PathUnescape(secret); err == nil && plain != secret {
			all = append(all, plain)
		}
	}
	_, rest, _ := strings.Cut(uri, "://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		_, password, _ := strings.Cut(rest[:at], ":")
		add(password)
	}
	_, query, _ := strings.Cut(rest, "?")
	for option := range strings.SplitSeq(query, "&") {
		name, v, _ := strings.Cut(option, "=")
		switch strings.ToLower(name) {
		case "tlscertificatekeyfilepassword", "sslclientcertificatekeypassword":
			add(v)
		case "authmechanismproperties":
			for property := range strings.SplitSeq(v, ",") {
				_, secret, _ := strings.Cut(property, ":")
				add(secret)
			}
		}
	}
	return all
}
