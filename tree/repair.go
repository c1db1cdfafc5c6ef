package tree

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// RepairOptions control Repair.
type RepairOptions struct {
	// MakeRoots makes roots of orphans, of nodes with a malformed path and of one
	// node of each cycle that no other node leads to; what their parent field or
	// path held, an array too, is lost. Default false: they stay as they are.
	MakeRoots bool
	// BatchSize is the number of nodes looked at in a transaction. Default 1,000.
	BatchSize int
	// Progress is called after each batch with the number of nodes looked at so
	// far, over all passes. Default none.
	Progress func(done int64)
}

// RepairResult counts what Repair did.
type RepairResult struct {
	// Examined counts the nodes looked at, in each pass again.
	Examined int64 `json:"examined"`
	// Repaired counts the problems mended.
	Repaired int64 `json:"repaired"`
	// Remaining are the problems that Repair may not or cannot mend: with a
	// SegmentField also the nodes whose place a sibling of that segment has.
	Remaining int64 `json:"remaining"`
}

// maxPasses bounds the passes of Repair: a path is mended at most one broken
// level a pass where IDs come in the worst order.
const maxPasses = 100

// Repair mends what Check finds. The parent references decide: arrays of
// ancestors, numbers and counters follow them. Of a path its last segment
// decides. Of several nodes with one child one keeps it that is not on a ring
// with it, and of these the one with the smallest ID. It is safe beside other work, which waits or retries while a batch is
// written; a run that is interrupted is finished by the next.
//
// Nested sets are numbered anew in one transaction, which for more than some
// 100,000 nodes may exceed the server's limit for transactions (60 s).
//
// Cost: as Check, and for each batch with problems the same again plus lock and
// 1 or 2 writes for each problem (with a SegmentField also 1 read); then a last pass that finds nothing. Nested
// sets: 4 round trips more (lock, all nodes, bulk write, commit).
func (t *Tree[K, T]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	var result RepairResult
	if err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, defaultBatch, &o.Progress); err != nil {
		return result, fail("repair", err)
	}
	for range maxPasses {
		mended, remaining, err := t.c.repairPass(ctx, o, &result)
		result.Repaired += mended
		result.Remaining = remaining
		if err != nil {
			return result, fail("repair", err)
		}
		if mended == 0 {
			break
		}
	}
	return result, nil
}

func (c *core) repairPass(ctx context.Context, o RepairOptions, result *RepairResult) (mended, remaining int64, err error) {
	renumber := false
	batch := func(ids []bson.RawValue) error {
		found, err := c.audited(ctx, ids)
		if err != nil {
			return err
		}
		var fixed, left int64
		if mends(found, o) {
			err = c.atomically(ctx, true, func(ctx context.Context) error {
				fixed, left = 0, 0
				found, err := c.audit(ctx, ids)
				if err != nil {
					return err
				}
				done := map[string]bool{}
				for _, f := range found {
					switch {
					case f.renumber:
						renumber = true
					case f.fix == nil || f.uproot && !o.MakeRoots:
						left++
					case f.uproot && done[key(f.id)]: // one change of place a pass
					default:
						err := f.fix(ctx)
						if errors.Is(err, errTaken) {
							left++
							break
						}
						if err != nil {
							return err
						}
						done[key(f.id)] = true
						fixed++
					}
				}
				return nil
			})
		} else {
			for _, f := range found {
				renumber = renumber || f.renumber
				if !f.renumber {
					left++
				}
			}
		}
		mended += fixed
		remaining += left
		result.Examined += int64(len(ids))
		if ids != nil {
			o.Progress(result.Examined)
		}
		return err
	}
	if err := batch(nil); err != nil {
		return mended, remaining, err
	}
	for ids, err := range c.batches(ctx, o.BatchSize) {
		if err != nil {
			return mended, remaining, err
		}
		if err := batch(ids); err != nil {
			return mended, remaining, err
		}
	}
	if renumber {
		n, err := c.renumber(ctx)
		mended += n
		if err != nil {
			return mended, remaining, err
		}
	}
	return mended, remaining, nil
}

func mends(found []finding, o RepairOptions) bool {
	for _, f := range found {
		if f.fix != nil && (!f.uproot || o.MakeRoots) {
			return true
		}
	}
	return false
}

// renumber gives all nodes of nested sets the numbers that follow from their
// parents, siblings in the order of the numbers they have. Nodes on a cycle get
// none. It returns the number of nodes written.
func (c *core) renumber(ctx context.Context) (written int64, err error) {
	err = c.atomically(ctx, true, func(ctx context.Context) error {
		nodes, err := c.findAll(ctx, c.in(), c.siblingSort()...)
		if err != nil {
			return err
		}
		below := c.assemble(nodes)
		isChild := make([]bool, len(nodes))
		for _, kids := range below {
			for _, kid := range kids {
				isChild[kid] = true
			}
		}
		left, right := make([]int64, len(nodes)), make([]int64, len(nodes))
		next := int64(1)
		type step struct{ node, kid int }
		for root := range nodes {
			if isChild[root] || same(nodes[root].parent, nodes[root].id) {
				continue
			}
			for stack := []step{{root, 0}}; len(stack) > 0; {
				top := &stack[len(stack)-1]
				if top.kid == 0 {
					left[top.node] = next
					next++
				}
				if top.kid < len(below[top.node]) {
					top.kid++
					stack = append(stack, step{below[top.node][top.kid-1], 0})
					continue
				}
				right[top.node] = next
				next++
				stack = stack[:len(stack)-1]
			}
		}
		var models []mongo.WriteModel
		for i, n := range nodes {
			if !c.numbered(n) || n.left != left[i] || n.right != right[i] {
				models = append(models, mongo.NewUpdateOneModel().SetFilter(c.byID(n.id)).
					SetUpdate(d("$set", d(c.o.LeftField, left[i], c.o.RightField, right[i]))))
			}
		}
		written = int64(len(models))
		return c.bulk(ctx, models)
	})
	return written, err
}
