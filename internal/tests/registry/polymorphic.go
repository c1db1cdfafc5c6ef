package registry

import (
	"context"
	"maps"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/polymorphic"
)

func init() { add(Pattern{Package: "polymorphic", Reads: polymorphicReads(), Role: polymorphicRole}) }

func polymorphicReads() (out []Row) {
	out = append(out, reads("polymorphic.Kinds", "", func(s *Scene) Keyed {
		s.Insert("athletes", testkit.D("_id", 1, "sport", "tennis"), testkit.D("_id", 2, "sport", "tennis"))
		return Keyed{s.Coll("athletes"), testkit.D("_id", 1)}
	}, map[string]func(context.Context, Keyed) error{
		"Find": func(ctx context.Context, k Keyed) error {
			kinds := testkit.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[struct{}]("tennis")}, &polymorphic.Options[any]{KindField: "sport"}))
			return testkit.Drain(kinds.Find(ctx, k.Coll, nil))
		},
	})...)
	return out
}

var polymorphicRole = &Role{Open: polymorphicPlayer, Rules: []Rule{
	{With: []string{"archive", "paging"}, Result: Works},
	{Result: WorksIf,
		Why: "documents are changed by operators: a whole document that is written back undoes what the other wrote meanwhile"},
}}

func polymorphicPlayer(s *Side) (*Player, error) {
	field := s.name("kind")
	k, err := polymorphic.New[any]([]polymorphic.Kind{polymorphic.Of[even]("even"), polymorphic.Of[odd]("odd")}, &polymorphic.Options[any]{KindField: field})
	name := func(n int) string { return []string{"even", "odd"}[n%2] }
	return opened(&Player{
		Adopt: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error { return s.set(ctx, id, field, "even") })
		},
		Reads: true,
		// A document is read, and written whole as one of another kind, or the field of the kind is set.
		Step: func(ctx context.Context, ids []any, n int) error {
			id := testkit.D("_id", ids[n%Shared])
			stored, err := s.Main.FindOne(ctx, id).Raw()
			if err != nil {
				return err
			}
			v, err := k.Decode(stored)
			if err != nil {
				return err
			}
			if err := s.Between(ctx); err != nil {
				return err
			}
			if s.Met {
				return s.set(ctx, ids[n%Shared], field, name(n))
			}
			encoded, err := k.Encode(ofKind(v, field, n))
			if err != nil {
				return err
			}
			return testkit.ErrorOf(s.Main.ReplaceOne(ctx, id, encoded))
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error {
				all := roundsOf(i)
				want := name(all[len(all)-1])
				if s.Met && s.Other.Back != nil {
					want = name(i) // the first revision brings back its kind
				}
				return s.has(ctx, id, field, want)
			})
		},
	}, k, err)
}

// even and odd are the kinds of polymorphic.
type even struct {
	Rest bson.M `bson:",inline"`
}

type odd struct {
	Rest bson.M `bson:",inline"`
}

// ofKind is a value as one of the kind of write n.
func ofKind(v any, field string, n int) any {
	rest := bson.M{}
	switch v := v.(type) {
	case even:
		maps.Copy(rest, v.Rest)
	case odd:
		maps.Copy(rest, v.Rest)
	}
	delete(rest, field)
	if n%2 == 0 {
		return even{rest}
	}
	return odd{rest}
}
