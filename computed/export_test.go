package computed

import (
	"testing"
	"time"
)

// GiveBackAtLeisure gives a failed call a minute to give its lease back.
func GiveBackAtLeisure(t *testing.T) {
	was := giveBackBound
	giveBackBound = time.Minute
	t.Cleanup(func() { giveBackBound = was })
}
