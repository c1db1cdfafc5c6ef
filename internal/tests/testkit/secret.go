package testkit

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// KeepsPassword runs this test binary as the command, with URIs that are malformed, not reached or refused, in
// MONGODB_URI and in place of "URI" among the arguments. It wants the command to fail and not to print the password.
func KeepsPassword(t *testing.T, asCommand string, arguments ...string) {
	t.Helper()
	const secret = "Hush"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	OK(t, err)
	closed := listener.Addr().String()
	OK(t, listener.Close())
	server := options.Client().ApplyURI(mongotest.URI(t)).Hosts[0] + "/?directConnection=true"
	const soon = "serverSelectionTimeoutMS=300"
	for name, uri := range map[string]string{
		"closed port":       "mongodb://bob:Hush@" + closed + "/?" + soon,
		"refused":           "mongodb://bob:Hush@" + server,
		"@ in the password": "mongodb://bob:Hush@Hush@" + closed + "/",
		": in the password": "mongodb://bob:Hush:Hush@" + closed + "/",
		"/ in the password": "mongodb://bob:Hush/Hush@" + closed + "/",
		"% in the password": "mongodb://bob:Hush%ZZHush@" + closed + "/",
		"host forgotten":    "mongodb://bob:Hush",
		"@ forgotten":       "mongodb://bob:Hush" + closed + "/",
		"no scheme":         "bob:Hush@" + closed,
		"bad property":      "mongodb://bob:Hush@" + closed + "/?authMechanismProperties=Hush",
		"bad option":        "mongodb://bob:Hush@" + closed + "/?maxPoolSize=Hush",
		"key password":      "mongodb://" + closed + "/?tlsCertificateKeyFile=no-such-file&tlsCertificateKeyFilePassword=Hush",
		"token":             "mongodb://bob:Hush@" + closed + "/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:Hush&" + soon,
		"srv":               "mongodb+srv://bob:Hush@no-such-host.invalid/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Clone(arguments)
			if i := slices.Index(args, "URI"); i >= 0 {
				args[i] = uri
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
			cmd.Env = append(cmd.Environ(), asCommand+"=1", "MONGODB_URI="+uri)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("no error:\n%s", out)
			}
			if text := string(out); strings.Contains(text, secret) || strings.Contains(text, "ZZ") {
				t.Errorf("it prints the password:\n%s", text)
			}
		})
	}
}
