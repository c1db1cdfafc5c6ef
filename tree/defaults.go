package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// defaults are the answers that most representations give.
type defaults struct{}

func (defaults) except(string) bson.D                               { return nil }
func (defaults) usable(node) error                                  { return nil }
func (defaults) accept(bson.D) error                                { return nil }
func (defaults) adopted(node) error                                 { return nil }
func (defaults) rebase(node, *node) []mongo.WriteModel              { return nil }
func (defaults) settle(context.Context) (int64, error)              { return 0, nil }
func (defaults) above(node) ([]bson.RawValue, int)                  { return nil, -1 }
func (defaults) width(node) int64                                   { return -1 }
func (defaults) names(node) []bson.RawValue                         { return nil }
func (defaults) keepsParent() bool                                  { return false }
func (defaults) settled(node) bool                                  { return false }
func (defaults) listing([]node) bson.D                              { return nil }
func (defaults) audit(*engine, node, *spot, []node) []finding       { return nil }
func (defaults) descendantsOf(node, int) (match bson.D, reads bool) { return nil, false }

func (defaults) join(context.Context, *engine, []node, []*spot, [][]node) ([]finding, error) {
	return nil, nil
}
