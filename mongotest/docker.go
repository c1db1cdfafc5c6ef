package mongotest

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/mongodb"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	dockerImage  = "mongo:7.0" // the newest series of which docs/compatibility.md names a build as run; the image itself is not tried yet
	containerKey = "/data/configdb/key"

	engineBound    = 3 * time.Second  // for an engine to answer
	pullPatience   = 4 * time.Second  // for a pull to begin
	pullSilence    = 60 * time.Second // in a pull
	containerBound = 2 * time.Minute  // to create the container and have it ready
	removeBound    = 30 * time.Second // to remove it
)

// docker starts a container with a one-node replica set.
func (s *starter) docker(ctx context.Context) (server *Server, err error) {
	defer func() { // testcontainers-go panics where it cannot find the socket
		if p := recover(); p != nil {
			err = fmt.Errorf("testcontainers-go: %v", p)
		}
	}()
	defer quiet()()
	begin := time.Now()
	provider, err := engine(ctx)
	s.patience -= time.Since(begin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = provider.Close() }()
	config := testcontainers.ReadConfig().Config
	images := []string{dockerImage}
	if !config.RyukDisabled {
		//lint:ignore SA1019 its replacement is internal to testcontainers-go
		images = append(images, testcontainers.ReaperDefaultImage) //nolint:staticcheck // see above
	}
	for _, image := range images {
		if config.HubImageNamePrefix != "" {
			image = path.Join(config.HubImageNamePrefix, image)
		}
		if err := s.pull(ctx, provider.Client(), image); err != nil {
			return nil, err
		}
	}
	return s.runContainer(ctx, provider)
}

// quiet silences testcontainers-go, which prints about each container, until the returned function is called.
// It does nothing if the user has set a logger.
func quiet() (restore func()) {
	logger, ok := tclog.Default().(*stdlog.Logger)
	if !ok {
		return func() {}
	}
	quieting.Lock()
	before := logger.Writer()
	logger.SetOutput(io.Discard)
	return func() {
		logger.SetOutput(before)
		quieting.Unlock()
	}
}

var quieting sync.Mutex

// engine finds a Docker engine that answers. testcontainers-go asks without a bound and keeps the answer for
// the whole process, so engine does not cancel it but lets it finish in the background.
func engine(ctx context.Context) (*testcontainers.DockerProvider, error) {
	type answer struct {
		provider *testcontainers.DockerProvider
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(tclog.NewNoopLogger()))
		answers <- answer{provider, err}
	}()
	select {
	case got := <-answers:
		if got.err != nil {
			return nil, absent("no Docker engine answers: " + got.err.Error())
		}
		return got.provider, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(engineBound):
		return nil, fmt.Errorf("the Docker engine does not answer within %v", engineBound)
	}
}

// pull makes sure that the engine has the image. It gives up if a pull does not begin soon, or stops.
func (s *starter) pull(ctx context.Context, engine client.APIClient, image string) error {
	bound := min(pullPatience, s.patience)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now()
	watch := time.AfterFunc(bound, func() {
		cancel(absent(fmt.Sprintf("the engine has no image %s, and no registry answers within %v", image, bound.Round(100*time.Millisecond))))
	})
	defer func() { watch.Stop() }()
	_, err := engine.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	begun := false
	err = pullImage(ctx, engine, image, func() {
		if !begun {
			begun = true
			s.say("pulling the image %s into Docker; this happens once", image)
		}
		if watch.Stop() {
			watch = time.AfterFunc(pullSilence, func() {
				cancel(fmt.Errorf("the pull of image %s made no progress for %v", image, pullSilence))
			})
		}
	})
	if !begun {
		s.patience -= time.Since(begin)
	}
	switch {
	case err == nil:
		s.say("pulled in %v", time.Since(begin).Round(time.Second))
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return absent(fmt.Sprintf("the engine has no image %s and cannot pull it: %v", image, err))
	}
}

// pullImage pulls an image and calls progress with each sign of it.
func pullImage(ctx context.Context, engine client.APIClient, image string, progress func()) error {
	var opts client.ImagePullOptions
	if _, auth, err := testcontainers.DockerImageAuth(ctx, image); err == nil {
		if opts.RegistryAuth, err = authconfig.Encode(auth); err != nil {
			return err
		}
	} // else there are no credentials, which a public image does not need
	pull, err := engine.ImagePull(ctx, image, opts)
	if err != nil {
		return err
	}
	defer func() { _ = pull.Close() }()
	for message, err := range pull.JSONMessages(ctx) {
		switch {
		case err != nil:
			return err
		case message.Error != nil:
			return message.Error
		case !strings.HasPrefix(message.Status, "Retrying"):
			progress()
		}
	}
	return nil
}

// runContainer starts the container and makes it a replica set. The module
// could do the latter too, but by a shell in the container, which takes longer.
func (s *starter) runContainer(ctx context.Context, provider *testcontainers.DockerProvider) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, containerBound)
	defer cancel()
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, err
	}
	name, key := "mongotest-"+randomName(), randomName()
	removed := watchContainer(provider, name)
	opts := []testcontainers.ContainerCustomizer{
		testcontainers.WithLogger(tclog.NewNoopLogger()),
		testcontainers.WithName(name),
		// This replaces the module's own strategy, which also runs a shell in the container to see the port:
		// the driver finds that out.
		testcontainers.WithWaitStrategy(wait.ForLog("Waiting for connections").WithStartupTimeout(startBound)),
		// The image gives what is in this folder to the user of mongod.
		testcontainers.WithFiles(testcontainers.ContainerFile{Reader: strings.NewReader(key), ContainerFilePath: containerKey, FileMode: 0o400}),
		testcontainers.WithCmdArgs(append([]string{"--replSet", replicaSet, "--keyFile", containerKey}, mongodArgs...)...),
	}
	local := host == "localhost" || host == "127.0.0.1"
	if local {
		// The engine would publish the port on all addresses. That is needed if another address leads to it:
		// for a remote engine, or tests in a container.
		opts = append(opts, testcontainers.WithHostConfigModifier(func(config *container.HostConfig) {
			config.PortBindings = network.PortMap{
				network.MustParsePort("27017/tcp"): {{HostIP: netip.MustParseAddr("127.0.0.1")}},
			}
		}))
	}
	started, err := mongodb.Run(ctx, dockerImage, opts...)
	server := &Server{stop: sync.OnceValue(func() error {
		defer removed()
		if started == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeBound)
		defer cancel()
		return started.Terminate(ctx, testcontainers.StopTimeout(0))
	})}
	if err != nil {
		return nil, s.failed(ctx, server, started, err)
	}
	endpoint, err := started.PortEndpoint(ctx, "27017/tcp", "")
	if err != nil {
		return nil, s.failed(ctx, server, started, err)
	}
	if port, ok := strings.CutPrefix(endpoint, "localhost:"); ok && local {
		endpoint = "127.0.0.1:" + port
	}
	const options = "directConnection=true"
	server.AdminURI = system(key).uri(endpoint, options)
	// The member of the set has a name that is valid only in the container.
	if err := server.initiate(ctx, server.AdminURI, replicaSet, []string{"127.0.0.1:27017"}, s.journal()...); err != nil {
		return nil, s.failed(ctx, server, started, err)
	}
	tester, err := server.tester(ctx)
	if err != nil {
		return nil, s.failed(ctx, server, started, err)
	}
	server.URI = tester.uri(endpoint, options)
	return server, nil
}

// failed ends a container that could not be used, and returns the reason with the end of its log.
func (s *starter) failed(ctx context.Context, server *Server, started *mongodb.MongoDBContainer, err error) error {
	err = fmt.Errorf("run image %s: %w%s", dockerImage, err, logTail(ctx, started))
	return errors.Join(err, server.stop())
}

// watchContainer makes the docker command, if it exists, remove the container of that name when this process
// ends. Ryuk, the reaper of testcontainers-go, does that too unless it is disabled, but only when go test as a
// whole ends.
func watchContainer(provider *testcontainers.DockerProvider, name string) (removed func()) {
	if _, err := exec.LookPath("docker"); err != nil {
		return func() {}
	}
	env := append(os.Environ(), "DOCKER_HOST="+provider.Client().DaemonHost())
	hold, _, err := guarded(env, dockerWatchdog, name)
	if err != nil {
		return func() {}
	}
	return func() { release(hold) }
}

// logTail returns the end of the container's log for an error.
func logTail(ctx context.Context, started *mongodb.MongoDBContainer) string {
	if started == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	logs, err := started.Logs(ctx)
	if err != nil {
		return ""
	}
	defer func() { _ = logs.Close() }()
	text, _ := io.ReadAll(io.LimitReader(logs, 1<<20)) // what there is
	return "; " + tail(text)
}
