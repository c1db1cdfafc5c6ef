package registry

import (
	"context"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func init() {
	add(Pattern{Package: "mongopatterns", Writes: rootRows, NoRole: "it stores nothing of its own"})
}

var rootRows = []Row{
	{"mongopatterns.Transact", func(s *Scene) Call {
		accounts := s.Coll("accounts")
		s.Insert("accounts", testkit.D("_id", "Ann", "balance", 10), testkit.D("_id", "Bob", "balance", 0))
		pay := func(ctx context.Context, id string, n int) error {
			return testkit.ErrorOf(accounts.UpdateByID(ctx, id, testkit.D("$inc", testkit.D("balance", n))))
		}
		return Call{Look: true, One: func(ctx context.Context) error {
			return mongopatterns.Transact(ctx, s.DB.Client(), func(ctx context.Context) error {
				if err := pay(ctx, "Ann", -3); err != nil {
					return err
				}
				return pay(ctx, "Bob", 3)
			})
		}}
	}},
}
