package outlier_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// A call that fails between two writes has changed nothing, and is tried again if the server
// says so: nobody sees an intermediate state.
func TestFailures(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: ints(0, 2)}})
	failOnce := func(command string, fail mongotest.Fail) {
		t.Helper()
		fail.Commands, fail.Times = []string{command}, 1
		mongotest.FailPoint(t, db, fail)
	}
	refused := mongotest.Fail{Code: 8000}
	transient := mongotest.Fail{Code: 112, Labels: []string{"TransientTransactionError"}}
	agree := func(n int) {
		t.Helper()
		equal(t, ints(0, n), testkit.Collect(t, lists.All(t.Context(), 1)))
		testkit.Healthy(t, lists)
	}
	for _, command := range []string{"findAndModify", "find", "insert", "update"} {
		failOnce(command, refused)
		if n, err := lists.Add(t.Context(), 1, ints(2, 8)...); err == nil || n != 0 {
			t.Fatal(command, n, err)
		}
		agree(2)
	}
	for i, command := range []string{"findAndModify", "insert", "commitTransaction"} {
		failOnce(command, transient)
		add(t, lists, 1, ints(2+4*i, 6+4*i)...)
		agree(6 + 4*i)
	}
	failOnce("delete", refused)
	if err := lists.Delete(t.Context(), 1); err == nil {
		t.Fatal("no error")
	}
	agree(14)
	// The replies to these are lost; the driver sends them again.
	for _, command := range []string{"update", "findAndModify"} {
		failOnce(command, mongotest.Fail{Close: true})
		if removed, err := lists.Remove(t.Context(), 1, 13); err != nil || !removed {
			t.Fatal(removed, err)
		}
		agree(13)
		add(t, lists, 1, 13)
		agree(14)
	}
}
