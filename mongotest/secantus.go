package mongotest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// The versions that are installed. They are part of the folders' names in the
// cache, so a change of one, or of constraints, needs a change of the name.
const (
	secantusRustVersion   = "0.5.3-beta.196"
	secantusPythonVersion = "0.7.0b3"
)

// constraints pins what the Python build of SecantusDB needs, so that an
// installation next year is the one of today. Python 3.10 gets what pip
// resolves for it: these versions ask for 3.11.
const constraints = `dnspython==2.9.2; python_version >= "3.11"
future==1.0.0
numpy==2.4.6; python_version >= "3.11"
pymongo==4.20.0; python_version >= "3.11"
python-dateutil==4.0.0; python_version >= "3.11"
s2sphere==0.2.5
shapely==2.2.0; python_version >= "3.11"
tzdata==2026.6
`

// pipPatience is what pip gets to find the network at the least, if the search
// for other servers has used up the rest.
const pipPatience = 2500 * time.Millisecond

var (
	// What pip and cargo print only after an answer from the network or out of
	// a cache.
	pipWorks   = regexp.MustCompile(`(?m)^\s*(Downloading|Using cached|Processing|Obtaining|Building|Preparing|Installing|Requirement already)`)
	cargoWorks = regexp.MustCompile(`(?m)^\s*(Downloading|Downloaded|Installing|Compiling)|info: downloading`)

	listening = regexp.MustCompile(`listening on 127\.0\.0\.1:(\d+)`)
)

// executable is the name of a program's file.
func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// secantusRust starts the Rust build of SecantusDB. Only when it is asked for
// by name it is built.
func (s *starter) secantusRust(ctx context.Context) (*Server, error) {
	build := installation{
		name:  "secantus-rs-" + secantusRustVersion,
		title: "SecantusDB " + secantusRustVersion + " (Rust build, with cargo; needs cmake, ninja and a C++ compiler)",
		takes: "3 to 10 minutes",
		has:   filepath.Join("bin", executable("secantusd-rs")),
		make: func(ctx context.Context, dir string) error {
			cargo, err := exec.LookPath("cargo")
			if err != nil {
				return absent("cargo is not on PATH")
			}
			return s.run(ctx, s.patience, cargoWorks, nil, cargo, "install", "secantus-mdb", "--version", secantusRustVersion,
				"--locked", "--ignore-rust-version", "--root", dir)
		},
	}
	dir, err := s.installed(build)
	if err == nil {
		return s.secantus(ctx, filepath.Join(dir, build.has))
	}
	if path, err := exec.LookPath("secantusd-rs"); err == nil {
		return s.secantus(ctx, path)
	}
	if s.choice != engineSecantusRust {
		return nil, absent("not on PATH, and " + err.Error() + "; MONGOTEST_SERVER=" + engineSecantusRust + " builds it")
	}
	if dir, err = s.install(ctx, build); err != nil {
		return nil, err
	}
	return s.secantus(ctx, filepath.Join(dir, build.has))
}

// secantusPython starts the Python build of SecantusDB, which it installs when
// it is not in the cache.
func (s *starter) secantusPython(ctx context.Context) (*Server, error) {
	bin := "bin"
	if runtime.GOOS == "windows" {
		bin = "Scripts"
	}
	python := filepath.Join(bin, executable("python"))
	build := installation{
		name:  "secantus-py-" + secantusPythonVersion,
		title: "SecantusDB " + secantusPythonVersion + " (Python build, with pip)",
		takes: "10 to 60 seconds",
		has:   filepath.Join(bin, executable("secantusd-py")),
		needs: python,
		make: func(ctx context.Context, dir string) error {
			return s.makePython(ctx, dir, filepath.Join(dir, python), filepath.Join(dir, bin, "secantusd-py"))
		},
	}
	if runtime.GOOS == "windows" {
		return nil, absent("not made for Windows")
	}
	dir, err := s.install(ctx, build)
	if err != nil {
		return nil, err
	}
	server, err := s.secantus(ctx, filepath.Join(dir, python), "-I", "-u", filepath.Join(dir, build.has))
	if err != nil {
		return nil, fmt.Errorf("%w\nif Python was changed since, remove %s to have it installed anew", err, dir)
	}
	return server, nil
}

// makePython installs the Python build into dir, where its interpreter and
// program will be.
func (s *starter) makePython(ctx context.Context, dir, python, program string) error {
	begin := time.Now()
	base, err := findPython(ctx)
	if err != nil {
		return err
	}
	env := []string{
		"PYTHONPATH=", "PYTHONUNBUFFERED=1", // the log must tell at once that pip works
		"PIP_USER=0", "PIP_TARGET=", "PIP_PREFIX=", "PIP_ROOT=",
	}
	if err := s.run(ctx, startBound, nil, env, base, "-m", "venv", "--without-pip", dir); err != nil {
		return err
	}
	// The pip that is there can install into the venv, from 22.3 on. Else the
	// venv gets its own first, which takes some seconds.
	pip := []string{base, "-m", "pip", "--python", python}
	if !hasPip(ctx, base) {
		pip = []string{python, "-m", "pip"}
		if err := s.run(ctx, startBound, nil, env, python, "-m", "ensurepip"); err != nil {
			return err
		}
	}
	pins := filepath.Join(dir, "constraints.txt")
	if err := os.WriteFile(pins, []byte(constraints), 0o600); err != nil {
		return err
	}
	bound := max(s.patience-time.Since(begin), min(s.patience, pipPatience))
	err = s.run(ctx, bound, pipWorks, env, append(pip, "install",
		"--disable-pip-version-check", "--no-input", "--retries", "2", "--progress-bar", "off",
		"-c", pins, "SecantusDB=="+secantusPythonVersion)...)
	if err != nil {
		return err
	}
	// Does it run? This also compiles what every start imports.
	return s.run(ctx, startBound, nil, env, python, "-I", program, "--help")
}

// hasPip reports whether python has a pip that installs into other venvs.
func hasPip(ctx context.Context, python string) bool {
	version, err := output(ctx, python, "-m", "pip", "--version")
	var major, minor int
	if _, scan := fmt.Sscanf(version, "pip %d.%d", &major, &minor); err != nil || scan != nil {
		return false
	}
	return major > 22 || major == 22 && minor >= 3
}

// findPython returns a Python 3 that is new enough.
func findPython(ctx context.Context) (string, error) {
	var found []string
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := output(ctx, path, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2]); sys.exit(sys.version_info < (3, 10))")
		if err == nil {
			return path, nil
		}
		found = append(found, fmt.Sprintf("%s (%s)", path, withoutCredentials(version)))
	}
	if len(found) == 0 {
		return "", absent("python3 is not on PATH")
	}
	return "", absent("needs Python 3.10 or later, found " + strings.Join(found, ", "))
}

// output runs a command that only looks something up.
func output(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// secantus starts a SecantusDB by the command program.
func (s *starter) secantus(ctx context.Context, program ...string) (*Server, error) {
	dir := newFolderName()
	p, err := launch(dir, os.Environ(), append(program,
		"--config", filepath.Join(dir, "empty"), // else one of the user's could hold anything
		"--host", "127.0.0.1", "--port", "0",
		"--storage-path", filepath.Join(dir, "data"),
		"--enable-test-commands")...)
	if err != nil {
		return nil, err
	}
	var port [][]byte
	err = p.poll(ctx, startBound, func() bool {
		port = listening.FindSubmatch(p.log())
		return port != nil
	})
	var server *Server
	if err == nil {
		server, err = describe(ctx, "mongodb://127.0.0.1:"+string(port[1])+"/?directConnection=true", p.stop)
	}
	if err != nil {
		_ = p.stop()
		return nil, fmt.Errorf("start %s: %w", program[len(program)-1], err)
	}
	return server, nil
}
