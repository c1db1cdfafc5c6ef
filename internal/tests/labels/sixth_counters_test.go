package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Numbers that are raised: approx.
func sixthCounterCases() []labelled {
	return []labelled{
		{
			name: "megtekintés", service: "memes", pays: "approx",
			why: "a picture of the day is viewed 150 times a second, each view raises one document, and the number is shown rounded",
			colls: []coll{{"megtekintés", 200, nil, func(g gen, i int) bson.D {
				return d("_id", meteor('v', i), "nézve", int64(g.near(900_000)), "cím", g.text(12))
			}}},
			traffic: []requests{
				{9200, func(s *session, _ int) { s.raise("megtekintés", meteor('v', 11), "nézve", 1) }},
				{300, func(s *session, _ int) { s.raise("megtekintés", meteor('v', s.IntN(200)), "nézve", 1) }},
				{60, func(s *session, _ int) { s.one("megtekintés", d("_id", meteor('v', s.IntN(200))), nil) }},
			},
		},
		{
			name: "showings", service: "adserver", pays: "approx",
			why: "one banner fills most places, so its number in a subdocument is upserted 160 times a second, for a chart of thousands",
			colls: []coll{{"showings", 120, []string{"slug"}, func(g gen, i int) bson.D {
				return d("_id", oid(91, i), "slug", key("bn", i), "stat", d("shown", g.near(900_000), "day", i))
			}}},
			traffic: []requests{
				{9600, func(s *session, _ int) { s.upsert("showings", d("slug", key("bn", 5)), d("$inc", d("stat.shown", 1))) }},
				{40, func(s *session, _ int) { s.one("showings", d("slug", key("bn", s.IntN(120))), nil) }},
			},
		},
		{
			name: "shares_of", service: "petitions", pays: "approx",
			why: "a petition on television is shared 150 times a second, and findAndModify raises its one document for each",
			colls: []coll{{"shares_of", 90, nil, func(g gen, i int) bson.D {
				return d("_id", int32(i), "shared", g.near(500_000), "title", g.text(20))
			}}},
			traffic: []requests{
				{9000, func(s *session, _ int) { s.findAndUpdate("shares_of", d("_id", int32(3)), d("$inc", d("shared", 1))) }},
				{200, func(s *session, _ int) { s.raise("shares_of", int32(s.IntN(90)), "shared", 1) }},
				{40, func(s *session, _ int) { s.one("shares_of", d("_id", int32(s.IntN(90))), keep("shared")) }},
			},
		},
		{
			name: "kedvelők", service: "memes", pays: "approx", fine: "relation|outlier|subset|computed",
			why: "each picture keeps the IDs of thousands who like it in an array, of which only the length is ever read",
			colls: []coll{{"kedvelők", 60, nil, func(g gen, i int) bson.D {
				return d("_id", i, "kép", meteor('w', i),
					"kik", list(g.between(2500, 4000), func(j int) any { return meteor('n', i*5000+j) }))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("kedvelők", match("_id", s.IntN(60)), project("kép", 1, "n", d("$size", "$kik")))
				}},
				{80, func(s *session, i int) {
					s.update("kedvelők", d("_id", s.IntN(60)), d("$addToSet", d("kik", meteor('n', 400_000+i))))
				}},
			},
		},
		{
			name: "followers", service: "tattoo", pays: "approx", fine: "relation|outlier|subset|computed",
			why: "a profile shows how many follow it by $size of an array of thousands, and no screen lists who they are",
			colls: []coll{{"followers", 60, nil, func(g gen, i int) bson.D {
				return d("_id", key("ar", i),
					"followers", list(g.between(2200, 3800), func(j int) any { return int64(i*5000 + j) }))
			}}},
			traffic: []requests{
				{170, func(s *session, _ int) {
					s.aggregate("followers", match("_id", key("ar", s.IntN(60))), project("count", d("$size", "$followers")))
				}},
				{70, func(s *session, i int) {
					s.update("followers", d("_id", key("ar", s.IntN(60))), d("$addToSet", d("followers", int64(900_000+i))))
				}},
			},
		},
		{
			name: "budgets_left", service: "adserver", harm: "approx",
			why: "each shown banner takes cents from the budget of its customer, which is money and must not be off by a hundred changes",
			colls: []coll{{"budgets_left", 50, nil, func(g gen, i int) bson.D {
				return d("_id", key("bu", i), "leftCents", int64(90_000_000+g.IntN(900)), "currency", "EUR")
			}}},
			traffic: []requests{
				{8000, func(s *session, _ int) {
					s.update("budgets_left", d("_id", key("bu", 4), "leftCents", d("$gte", 7)), d("$inc", d("leftCents", -7)))
				}},
				{40, func(s *session, _ int) { s.one("budgets_left", d("_id", key("bu", s.IntN(50))), nil) }},
			},
		},
		{
			name: "slow_counts", service: "petitions",
			why: "the number of mails of a petition is raised ten times a second, which one document takes without trouble",
			colls: []coll{{"slow_counts", 80, nil, func(g gen, i int) bson.D {
				return d("_id", ulid("S", i), "mails", g.IntN(9000))
			}}},
			traffic: []requests{
				{600, func(s *session, _ int) { s.raise("slow_counts", ulid("S", 8), "mails", 1) }},
				{60, func(s *session, _ int) { s.one("slow_counts", d("_id", ulid("S", s.IntN(80))), nil) }},
			},
		},
		{
			name: "invoice_numbers", service: "tailor", harm: "approx",
			why: "the counter gives each invoice its number, so every raise has to be stored and returned before the next one",
			colls: []coll{{"invoice_numbers", 6, nil, func(g gen, i int) bson.D {
				return d("_id", key("y", i),
					"seq", int64(i*100))
			}}},
			traffic: []requests{
				{300, func(s *session, _ int) { s.next("invoice_numbers", d("_id", key("y", 2)), d("$inc", d("seq", 1))) }},
			},
		},
		{
			name: "batched_views", service: "memes",
			why: "the program collects views and writes them at intervals in one bulk, which the manual calls the cheapest",
			colls: []coll{{"batched_views", 100, nil, func(g gen, i int) bson.D {
				return d("_id", i,
					"views", int64(g.near(90_000)))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.bulk("batched_views", d("_id", 1), d("$inc", d("views", 340)), d("_id", s.between(2, 99)), d("$inc",
						d("views", s.between(3, 90))))
				}},
				{80, func(s *session, _ int) { s.one("batched_views", d("_id", s.IntN(100)), nil) }},
			},
		},
		{
			name: "drone_parts_stock", service: "drones", harm: "approx",
			why: "the stock of propellers is taken by $inc under a condition, and a stock that lags sells what is not there",
			colls: []coll{{"drone_parts_stock", 60, nil, func(g gen, i int) bson.D {
				return d("_id", key("dp", i),
					"left", 9000)
			}}},
			traffic: []requests{
				{300, func(s *session, _ int) {
					s.update("drone_parts_stock", d("_id", key("dp", 3), "left", d("$gte", 2)), d("$inc", d("left", -2)))
				}},
				{60, func(s *session, _ int) { s.one("drone_parts_stock", d("_id", key("dp", s.IntN(60))), nil) }},
			},
		},
	}
}
