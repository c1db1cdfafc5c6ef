package sweep

import (
	"context"

	"github.com/mongopatterns/mongopatterns"
)

var rootRows = []row{
	{"mongopatterns.Transact", func(s *scene) call {
		accounts := s.coll("accounts")
		s.insert("accounts", doc("_id", "Ann", "balance", 10), doc("_id", "Bob", "balance", 0))
		pay := func(ctx context.Context, id string, n int) error {
			return void(accounts.UpdateByID(ctx, id, doc("$inc", doc("balance", n))))
		}
		return call{look: true, one: func(ctx context.Context) error {
			return mongopatterns.Transact(ctx, s.db.Client(), func(ctx context.Context) error {
				if err := pay(ctx, "Ann", -3); err != nil {
					return err
				}
				return pay(ctx, "Bob", 3)
			})
		}}
	}},
}
