package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// base has the answers that most representations give.
type base struct{ *core }

func (b base) order() string                                    { return b.o.OrderField }
func (b base) keepsParent() bool                                { return false }
func (b base) rootsMatch() bson.D                               { return b.in(b.rep.link(), nil) }
func (b base) except(string) bson.D                             { return nil }
func (b base) usable(node) error                                { return nil }
func (b base) adopted(node) error                               { return nil }
func (b base) rebase(node, *node) []mongo.WriteModel            { return nil }
func (b base) lift(node, *node) []mongo.WriteModel              { return nil }
func (b base) inside(context.Context, node, node) (bool, error) { return false, nil }
func (b base) settle(context.Context) (int64, error)            { return 0, nil }
func (b base) adopt(kids []bson.RawValue) bson.D                { return b.count(int64(len(kids))) }
func (b base) above(node) []bson.RawValue                       { return nil }
func (b base) width(node) int64                                 { return -1 }
func (b base) names(node) []bson.RawValue                       { return nil }
func (b base) listing([]node) bson.D                            { return nil }
func (b base) audit(*engine, node, *spot, []node) []finding     { return nil }
func (b base) cut(n node, s *spot) *finding                     { return b.cutSmallest(n, s) }
func (b base) descendantsOf(node, int) (m bson.D, reads bool)   { return nil, false }
func (b base) join(context.Context, *engine, []node, []*spot, [][]node) ([]finding, error) {
	return nil, nil
}

func (b base) heir(node) *node { return nil }

// parentOf is the filter for the parent of a node, nil for a root.
func (b base) parentOf(n node) bson.D {
	if heir := b.rep.heir(n); heir != nil {
		return b.byID(heir.id)
	}
	return nil
}

func (b base) parents(nodes []node) bson.D {
	var ids []bson.RawValue
	for _, n := range nodes {
		if heir := b.rep.heir(n); heir != nil {
			ids = append(ids, heir.id)
		}
	}
	return b.byIDs(ids)
}

// siblings are the other nodes that name the same parent, or none.
func (b base) siblings(id any) mongo.Pipeline {
	field := b.rep.link()
	return concat(mongo.Pipeline{expr.Op("$match", append(b.byID(id), b.rep.except(field)...)),
		b.lookup(field, field, b.inOrder()...)}, unfold(), mongo.Pipeline{expr.Op("$match", d(b.o.IDField, d("$ne", id)))})
}

func (b base) uproot(n node) []mongo.WriteModel {
	return []mongo.WriteModel{update(b.byID(n.id), d("$set", b.rep.place(nil)))}
}
