package credentials

import (
	"errors"
	"strings"
	"testing"
)

// A proxy may echo what it was sent.
func TestHide(t *testing.T) {
	for _, c := range []struct{ uri, text, want string }{
		{"mongodb://bob:Hu%40sh@host/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:Token",
			"refused Hu@sh and Token, see https://me:pw@host/x and http://token@host", "refused *** and ***, see https://***@host/x and http://***@host"},
		{"mongodb://host/?tlsCertificateKeyFilePassword=Hush", "no key for Hush", "no key for ***"},
		{"mongodb://bob:Hu/sh@Hu@host", "connect mongodb://bob:Hu/sh@Hu@host failed for Hu/sh@Hu", "connect mongodb://***@host failed for ***"},
		{"mongodb://bob:@host", "bob at host", "bob at host"},
		{"", "mongodb://host:27017 and a@b", "mongodb://host:27017 and a@b"},
	} {
		if got := Hide(c.text, c.uri); got != c.want {
			t.Errorf("%s: got %s and not %s", c.uri, got, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	if opts, err := Options("mongodb://bob:pw@host/"); err != nil || opts.Auth.Password != "pw" {
		t.Errorf("got %v", err)
	}
	for _, uri := range []string{"mongodb://bob:Hush@Hush@host", "mongodb://bob:Hush", "mongodb://bob:Hush@host/?maxPoolSize=Hush", "mongodb+srv://bob:Hush@no-such.invalid/"} {
		_, err := Options(uri)
		if err == nil || errors.Unwrap(err) != nil || strings.Contains(err.Error(), "Hush") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
