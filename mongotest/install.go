package mongotest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// installation is a server that is installed into a folder of the cache.
type installation struct {
	name  string // of the folder, with the version
	title string // for people
	takes string // usually
	has   string // a file that a finished one has, relative to its folder
	needs string // a link in it that must not dangle; "" for none
	make  func(ctx context.Context, dir string) error
}

// silence is how long an installation may print nothing and write nothing once
// the network has answered. It is long for the compilers and linkers among them.
const silence = 10 * time.Minute

// installed returns the folder of a finished installation. The folder has its
// name only once it is complete.
func (s *starter) installed(what installation) (dir string, err error) {
	if s.cacheErr != nil {
		return "", s.cacheErr
	}
	dir = filepath.Join(s.cache, what.name)
	for _, name := range []string{what.has, what.needs} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("not in the cache (%s)", dir)
		}
	}
	return dir, nil
}

// install returns the folder of an installation, which it makes if there is
// none. Of several processes one makes it; the others wait for it, and if it
// fails, fail with it rather than try in turn. What a process that was killed
// left half-made is removed.
func (s *starter) install(ctx context.Context, what installation) (string, error) {
	if dir, err := s.installed(what); err == nil || s.cacheErr != nil {
		return dir, err
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for the cache: %w; set MONGOTEST_CACHE to one that can be written", err)
	}
	dir := filepath.Join(s.cache, what.name)
	failed := dir + ".failed"
	lock := flock.New(dir + ".lock")
	defer func() { _ = lock.Close() }()
	asked := time.Now()
	got, err := lock.TryLock()
	if err == nil && !got {
		s.say("waiting for another process that installs %s", what.title)
		if _, err = lock.TryLockContext(ctx, 50*time.Millisecond); err == nil {
			if reason := failureAfter(failed, asked); reason != "" {
				return "", fmt.Errorf("another process tried to install it meanwhile: %s", reason)
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	if dir, err := s.installed(what); err == nil {
		return dir, nil
	}
	leftovers, err := filepath.Glob(dir + ".part-*")
	if err != nil {
		return "", err
	}
	for _, leftover := range append(leftovers, dir) {
		if err := os.RemoveAll(leftover); err != nil {
			return "", err
		}
	}
	part, err := os.MkdirTemp(s.cache, what.name+".part-")
	if err != nil {
		return "", err
	}
	s.say("installing %s into %s; this happens once and usually takes %s", what.title, dir, what.takes)
	begin := time.Now()
	if err = what.make(ctx, part); err == nil {
		if err = os.Rename(part, dir); err == nil {
			_ = os.Remove(failed) // most often there is none
			s.say("installed in %v", time.Since(begin).Round(100*time.Millisecond))
			return s.installed(what)
		}
	}
	err = fmt.Errorf("install: %w", err)
	if ctx.Err() == nil {
		err = errors.Join(err, rememberFailure(failed, err))
	}
	return "", errors.Join(err, os.RemoveAll(part))
}

// failure is what the file of a failed installation says.
type failure struct {
	At     time.Time
	Reason string
}

func rememberFailure(file string, err error) error {
	text, _ := json.Marshal(failure{time.Now(), withoutCredentials(err.Error())}) // cannot fail
	return os.WriteFile(file, text, 0o600)
}

// failureAfter returns the reason of the last failure if that was after asked.
func failureAfter(file string, asked time.Time) string {
	var last failure
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &last) != nil || !last.At.After(asked) {
		return ""
	}
	return last.Reason
}

// run runs one step of an installation. It gives up when nothing it prints
// matches works within bound, or, after that, when it falls silent. Without
// works, bound is for the whole step.
func (s *starter) run(ctx context.Context, bound time.Duration, works *regexp.Regexp, env []string, argv ...string) error {
	dir := newFolderName()
	p, err := launch(dir, append(append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp")), env...), argv...)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	begin, deadline := time.Now(), time.Now().Add(bound)
	var seen int64
	for {
		status, dead := p.exited()
		if dead && status == "0" {
			return nil
		}
		if dead {
			return fmt.Errorf("%s ended with status %s; %s", command(argv), status, p.tail())
		}
		if works != nil && works.Match(p.log()) {
			works, bound = nil, silence
			begin, deadline = time.Now(), time.Now().Add(bound)
		}
		if bound == silence {
			if size := sizeOf(dir); size != seen {
				seen = size
				deadline = time.Now().Add(silence)
			}
		}
		if time.Now().After(deadline) {
			if works != nil {
				return fmt.Errorf("%s got no answer from the network within %v; %s", command(argv), time.Since(begin).Round(100*time.Millisecond), p.tail())
			}
			return fmt.Errorf("%s gave no sign of life for %v; %s", command(argv), bound, p.tail())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// command is how an error names a command: without its many arguments.
func command(argv []string) string {
	for i, arg := range argv {
		if i > 0 && !strings.HasPrefix(arg, "-") {
			return filepath.Base(argv[0]) + " " + arg
		}
	}
	return argv[0]
}

// sizeOf adds up the sizes of the files in dir.
func sizeOf(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil // files come and go meanwhile
	})
	return total
}
