package registry

import (
	"context"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/polymorphic"
)

func init() { add(Pattern{Package: "polymorphic", Reads: polymorphicReads()}) }

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
