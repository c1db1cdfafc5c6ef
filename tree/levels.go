package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// upwards are the two ways to read upwards: by a pipeline, and level by level.
type upwards interface {
	reads
	parentsMatch(nodes []node) bson.D
}

// searchCycle refuses to put x under a parent if the way up from that, which it reads by r, leads to x. The caller holds
// the lock, so that no other move can change the way.
func (s *store) searchCycle(ctx context.Context, r upwards, x, parent node) error {
	nodes, err := s.follow(ctx, parent.id, s.rootFirst(r, parent.id), r.parentsMatch)
	if err != nil {
		return err
	}
	if same(parent.id, x.id) || holds(idsOf(nodes), x.id) {
		return s.about(x.id, ErrCycle)
	}
	return nil
}

// follow reads a node and all nodes above or below it, by p or, where the server refuses that, level by level with next.
func (s *store) follow(ctx context.Context, id bson.RawValue, p mongo.Pipeline, next func(nodes []node) bson.D) ([]node, error) {
	if s.byLevels.Load() {
		return s.readLevels(ctx, id, next)
	}
	return s.aggregate(ctx, p)
}

// filterable returns how many of the nodes fit in the filter of one query, with the IDs that they list.
func filterable(nodes []node) (n int) {
	for size := 0; n < len(nodes) && n < 10_000; n++ {
		if size += len(nodes[n].raw); n > 0 && size > 8<<20 {
			break
		}
	}
	return n
}

// readLevels reads a node, then the nodes that next matches for it, and so on, each node once. It replaces
// $graphLookup, which a sharded collection refuses in a transaction.
func (s *store) readLevels(ctx context.Context, id bson.RawValue, next func(nodes []node) bson.D) (all []node, err error) {
	seen := map[string]bool{}
	done := 0
	for match := s.idMatch(id); ; {
		found, err := s.findAll(ctx, match)
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			if !seen[key(n.id)] {
				seen[key(n.id)] = true
				all = append(all, n)
			}
		}
		if done == len(all) {
			return all, nil
		}
		level := all[done : done+filterable(all[done:])]
		match, done = next(level), done+len(level)
	}
}
