package mongotest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// uriTimeout bounds the check that a named server answers.
const uriTimeout = 8 * time.Second

// connect checks that the server at uri answers, and asks what it is. Its errors do not contain or wrap a
// secret of uri.
func connect(ctx context.Context, uri string) (*Server, error) {
	s, err := &Server{URI: uri}, errors.New("no answer")
	answers := make(chan error, 1)
	go func() { answers <- s.reach(ctx) }()
	select {
	case err = <-answers:
	case <-time.After(uriTimeout + time.Second): // the driver looks up mongodb+srv names without a context
	case <-ctx.Done():
	}
	if err == nil {
		return s, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("mongotest: reach the server of MONGODB_URI: %w", context.Cause(ctx))
	}
	return nil, fmt.Errorf("mongotest: MONGODB_URI: %v\nstart that server or correct MONGODB_URI, or unset it to let mongotest find or start a server", err)
}

func (s *Server) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, uriTimeout)
	defer cancel()
	opts := options.Client().ApplyURI(s.URI)
	if err := opts.Validate(); err != nil {
		if lookup := (&net.DNSError{}); errors.As(err, &lookup) {
			return fmt.Errorf("look up %s: %s", lookup.Name, lookup.Err)
		}
		return errors.New("the URI is not valid (the reason may contain the password and is not shown; special characters in user and password must be percent-encoded)")
	}
	if opts.ServerSelectionTimeout == nil || *opts.ServerSelectionTimeout > uriTimeout-2*time.Second {
		opts.SetServerSelectionTimeout(uriTimeout - 2*time.Second) // its error tells more than ctx's
	}
	if err := s.describe(ctx, opts); err != nil {
		return fmt.Errorf("server %s: %s", strings.Join(opts.Hosts, ","), hide(opts, err.Error()))
	}
	return nil
}

var credentials = regexp.MustCompile(`(://)[^/\s"'@]*@`)

// withoutCredentials hides the user and password of the URLs in text.
func withoutCredentials(text string) string {
	return credentials.ReplaceAllString(text, "${1}***@")
}

// hide removes the secrets of a client's options from text, because a server may have echoed them.
func hide(opts *options.ClientOptions, text string) string {
	if opts.Auth != nil {
		secrets := []string{opts.Auth.Password}
		for _, property := range opts.Auth.AuthMechanismProperties {
			secrets = append(secrets, property)
		}
		for _, secret := range secrets {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "***")
			}
		}
	}
	return withoutCredentials(text)
}
