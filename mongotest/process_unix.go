//go:build unix

package mongotest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// watchdog runs "$@" in folder $1 of its own and removes the folder. Its input is a pipe, and only the test
// process has the other end: the end of file means that the test process closed it or ended, by whatever
// signal; a line asks to start the child again. In both cases the running child gets TERM, and KILL a moment
// later, because nothing of it is kept. The file exit says that the child is dead, and that its pid may belong
// to another process.
const watchdog = `
PATH=${PATH:+$PATH:}/usr/bin:/bin
dir=$1
shift
mkdir -m 700 "$dir" && mkdir "$dir/data" "$dir/tmp" || exit 1
( umask 077; printf %s "$MONGOTEST_KEY" >"$dir/key" )
unset MONGOTEST_KEY
: >"$dir/log"
exec 3<&0 </dev/null
trap '' TERM INT HUP QUIT
while :; do
	( trap - TERM INT HUP QUIT; exec "$@" ) </dev/null >>"$dir/log" 2>&1 3<&- &
	child=$!
	echo $child >"$dir/pid"
	(
		read -r line <&3
		again=$?
		kill -TERM 0
		i=0
		while [ ! -e "$dir/exit" ] && [ $i -lt 3 ]; do
			sleep 0.1
			i=$((i+1))
		done
		[ -e "$dir/exit" ] || kill -KILL $child
		exit $again
	) >/dev/null 2>&1 &
	guard=$!
	wait $child 2>/dev/null
	echo $? >"$dir/exit"
	wait $guard || break
	rm "$dir/pid" "$dir/exit"
done
exec 3<&-
rm -rf "$dir"
`

// stopBound is how long stop waits for the watchdog. It is longer than the watchdog waits for the child.
const stopBound = 15 * time.Second

// launch starts argv under the watchdog. Arguments may name files in dir, which
// newFolderName chose.
func launch(dir string, env []string, argv ...string) (*process, error) {
	hold, done, err := guarded(env, watchdog, append([]string{dir}, argv...)...)
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir}
	p.again = func() error {
		_, err := hold.WriteString("again\n")
		return err
	}
	p.stop = sync.OnceValue(func() error {
		release(hold)
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("mongotest: the watchdog of %s: %w", argv[0], err)
			}
			return nil
		case <-time.After(stopBound):
			return fmt.Errorf("mongotest: %s is still there %v after it was told to stop", argv[0], stopBound)
		}
	})
	for { // until the watchdog has made the folder, within milliseconds
		if _, err := os.Stat(dir + "/log"); err == nil {
			return p, nil
		}
		select {
		case err := <-done:
			release(hold)
			return nil, fmt.Errorf("make folder %s: the shell ended: %w", dir, err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

var signals = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

// signal sends the child a signal of this name.
func (p *process) signal(name string) error {
	if _, dead := p.exited(); dead {
		return errors.New("it does not run")
	}
	pid := p.pid()
	if pid <= 0 { // it is being started again; 0 would be this process and its group
		return errors.New("its process is not known yet")
	}
	return syscall.Kill(pid, signals[name])
}

// guarded runs a shell script whose input ends with release, or with this process. It has a session of its
// own, so that Ctrl-C does not end it.
func guarded(env []string, script string, args ...string) (hold *os.File, done <-chan error, err error) {
	in, hold, err := os.Pipe() // both close on exec: no other child gets the end held here
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Close() }()
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "mongotest"}, args...)...)
	cmd.Stdin = in
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, hold.Close())
	}
	// The file is held until release, because the garbage collector closes a file that nothing refers to, and
	// a program may keep only the URI of the server.
	held.Store(hold, nil)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return hold, ended, nil
}

func release(hold *os.File) {
	held.Delete(hold)
	_ = hold.Close()
}

var held sync.Map // *os.File -> nil

// dockerWatchdog removes a container when the test process has ended. The second attempt is for a container
// that was just being created.
const dockerWatchdog = `
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin
trap '' TERM INT HUP QUIT
exec >/dev/null 2>&1
while read -r line; do :; done
docker rm --force --volumes "$1"
sleep 2
docker rm --force --volumes "$1"
`

// private returns an error if another user than this one and root owns a file or folder, or may write to it: a program
// in there could be his.
func private(paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Uid != 0 && int(stat.Uid) != os.Getuid() || info.Mode()&0o022 != 0 {
			return fmt.Errorf("%s may be changed by other users (mode %v): remove it, or set MONGOTEST_CACHE to another folder", path, info.Mode())
		}
	}
	return nil
}
