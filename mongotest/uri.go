package mongotest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The bounds of the check that a named server answers. The outer one holds also
// where the driver looks up mongodb+srv names, which takes no context.
const (
	uriSelection = 6 * time.Second
	uriTimeout   = 8 * time.Second
)

// connect checks that the server at uri answers, and says what it is. Its
// errors carry the texts of the driver without the secrets of uri, and do not
// wrap them, so that no secret comes out by unwrapping either.
func connect(ctx context.Context, uri string) (*Server, error) {
	type answer struct {
		server *Server
		where  string
		err    error
	}
	bound, cancel := context.WithTimeout(ctx, uriTimeout)
	answers := make(chan answer, 1)
	go func() {
		defer cancel()
		server, where, err := reach(bound, uri)
		answers <- answer{server, where, err}
	}()
	var got answer
	select {
	case got = <-answers:
	case <-bound.Done():
		// The answer may have come together with its cancel.
		select {
		case got = <-answers:
		default:
			got.err = fmt.Errorf("no answer within %v", uriTimeout)
		}
	}
	if got.err == nil {
		return got.server, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("mongotest: reach the server of MONGODB_URI: %w", err)
	}
	const advice = "start that server or correct MONGODB_URI, or unset it to let mongotest find or start a server"
	if got.where == "" {
		return nil, fmt.Errorf("mongotest: MONGODB_URI: %s\n%s", hide(uri, got.err.Error(), true), advice)
	}
	return nil, fmt.Errorf("mongotest: MONGODB_URI, server %s: %s\n%s", got.where, hide(uri, got.err.Error(), false), advice)
}

// reach connects to uri; where is empty when that could not even be parsed.
func reach(ctx context.Context, uri string) (server *Server, where string, err error) {
	opts := options.Client().ApplyURI(uri)
	if err := opts.Validate(); err != nil {
		return nil, "", err
	}
	where = strings.Join(opts.Hosts, ",")
	if opts.ServerSelectionTimeout == nil || *opts.ServerSelectionTimeout > uriSelection {
		opts.SetServerSelectionTimeout(uriSelection)
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		return nil, where, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	engine, version, err := identify(ctx, client)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", uriTimeout, err)
	}
	if err != nil {
		return nil, where, err
	}
	return &Server{URI: uri, Engine: engine, Version: version}, where, nil
}

var (
	credentials = regexp.MustCompile(`(://)[^/\s"'@]*@`)
	quoted      = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// withoutCredentials hides the user and password of the URLs in text.
func withoutCredentials(text string) string {
	return credentials.ReplaceAllString(text, "${1}***@")
}

// hide takes the secrets of uri out of text. unparsed says that uri was refused
// as a whole: then any quoted part of text may be one.
func hide(uri, text string, unparsed bool) string {
	if unparsed {
		text = quoted.ReplaceAllString(text, "***")
		if !strings.Contains(uri, "@") { // forgotten: the password looks like a host or port
			_, rest, _ := strings.Cut(uri, "://")
			_, port, _ := strings.Cut(rest, ":")
			if port, _, _ = strings.Cut(port, "/"); port != "" {
				text = strings.ReplaceAll(text, port, "***")
			}
		}
	}
	for _, secret := range secrets(uri) {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return withoutCredentials(text)
}

// secrets returns what may be secret in uri, the longest first: its password,
// where an unescaped @ may belong to it or not, and the values of the options
// that carry one, all as written and unescaped.
func secrets(uri string) []string {
	var found []string
	add := func(s string) {
		if s == "" {
			return
		}
		found = append(found, s)
		if plain, err := url.PathUnescape(s); err == nil {
			found = append(found, plain)
		}
		if plain, err := url.QueryUnescape(s); err == nil {
			found = append(found, plain)
		}
	}
	_, rest, _ := strings.Cut(uri, "://")
	for _, end := range []int{strings.Index(rest, "@"), strings.LastIndex(rest, "@")} {
		if end >= 0 {
			_, password, _ := strings.Cut(rest[:end], ":")
			add(password)
		}
	}
	_, query, _ := strings.Cut(rest, "?")
	for _, option := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
		key, value, _ := strings.Cut(option, "=")
		key = strings.ToLower(key)
		if key == "authmechanismproperties" {
			add(value)
			for _, property := range strings.Split(value, ",") {
				_, value, _ := strings.Cut(property, ":")
				add(value)
			}
		}
		if strings.Contains(key, "password") {
			add(value)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	return found
}
