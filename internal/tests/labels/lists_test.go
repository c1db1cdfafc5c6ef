package labels_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lists in documents: outlier, subset, and what only looks like them.
func listCases() []labelled {
	return []labelled{
		{
			name: "books", service: "library", pays: "outlier", fine: "relation",
			why: "nearly all books have a few dozen buyers, five bestsellers have thousands, and a book is read whole",
			colls: []coll{{name: "books", n: 800, indexes: []string{"isbn"}, doc: func(g gen, i int) bson.D {
				n := g.between(3, 40)
				if i%160 == 7 {
					n = 4000
				}
				return d("_id", oid(1, i), "isbn", fmt.Sprintf("978-%06d", i), "title", g.text(30), "authors", a{g.name()},
					"customers_purchased", list(n, func(int) any { return oid(2, g.IntN(50_000)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("books", d("isbn", fmt.Sprintf("978-%06d", s.IntN(800))), nil) }},
				{25, func(s *session, _ int) {
					s.update("books", d("_id", oid(1, s.IntN(800))), d("$addToSet", d("customers_purchased", oid(2, s.IntN(50_000)))))
				}},
			},
		},
		{
			name: "profiles", service: "social", pays: "outlier", fine: "relation",
			why: "followers of ordinary people are few, six celebrities have thousands, and profiles are read whole",
			colls: []coll{{name: "profiles", n: 1500, indexes: []string{"handle"}, doc: func(g gen, i int) bson.D {
				n := g.near(60)
				if i%250 == 99 {
					n = 3000
				}
				doc := d("_id", oid(3, i), "handle", fmt.Sprint("user", i), "bio", g.text(80),
					"followers", list(n, func(j int) any { return d("id", oid(3, g.IntN(90_000)), "since", at(j)) }))
				if i%9 == 0 {
					return doc[:3] // from before there were followers
				}
				return doc
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("profiles", d("handle", fmt.Sprint("user", s.IntN(1500))), nil) }},
				{40, func(s *session, i int) {
					s.update("profiles", d("_id", oid(3, s.IntN(1500))), d("$push", d("followers", d("id", oid(3, i), "since", at(i)))))
				}},
			},
		},
		{
			name: "playlists", service: "media", pays: "outlier",
			why: "playlists of 10 to 60 tracks are played whole, and a few of thousands blow up their documents",
			colls: []coll{{name: "playlists", n: 900, indexes: []string{"ownerId"}, doc: func(g gen, i int) bson.D {
				n := g.between(10, 60)
				if i%180 == 50 {
					n = 2500
				}
				return d("_id", oid(4, i), "ownerId", g.IntN(300), "title", g.text(20),
					"trackList", list(n, func(j int) any { return d("trackId", oid(5, g.IntN(9999)), "addedAt", at(j), "by", g.name()) }))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.one("playlists", d("_id", oid(4, s.IntN(900))), nil) }},
				{40, func(s *session, _ int) { s.find("playlists", d("ownerId", s.IntN(300)), by{}) }},
				{20, func(s *session, i int) {
					track := d("trackId", oid(5, i), "addedAt", at(i), "by", s.name())
					s.update("playlists", d("_id", oid(4, s.IntN(900))), d("$push", d("trackList", track)))
				}},
			},
		},
		{
			name: "bestellungen", service: "shop", pays: "outlier",
			why: "orders have up to a dozen lines, but those of eight wholesalers have 1,500",
			colls: []coll{{name: "bestellungen", n: 1200, indexes: []string{"kundennr"}, doc: func(g gen, i int) bson.D {
				n := g.between(1, 12)
				if i%150 == 11 {
					n = 1500
				}
				return d("_id", fmt.Sprintf("B-%06d", i), "kundennr", g.IntN(200), "datum", at(i), "summe", g.money(),
					"positionen", list(n, func(j int) any {
						return d("pos", j+1, "artikel", fmt.Sprintf("A%05d", g.IntN(9000)), "menge", g.between(1, 9),
							"einzelpreis", g.money())
					}))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) { s.one("bestellungen", d("_id", fmt.Sprintf("B-%06d", s.IntN(1200))), nil) }},
				{40, func(s *session, _ int) {
					s.find("bestellungen", d("kundennr", s.IntN(200)), by{fields: d("datum", 1, "summe", 1), sort: d("datum", -1)})
				}},
			},
		},
		{
			name: "stock_items", service: "plant", pays: "outlier",
			why: "four bulk articles hold thousands of serial numbers, all others some dozens",
			colls: []coll{{name: "stock_items", n: 600, indexes: []string{"sku"}, doc: func(g gen, i int) bson.D {
				n := g.between(5, 50)
				if i%150 == 2 {
					n = 5000
				}
				return d("_id", i, "sku", fmt.Sprintf("SKU%04d", i), "inventory", d("site", g.city(), "counted", at(i),
					"serials", list(n, func(j int) any { return fmt.Sprintf("SN-%04d-%06d", i, j) })))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("stock_items", d("sku", fmt.Sprintf("SKU%04d", s.IntN(600))), nil) }},
				{20, func(s *session, i int) {
					s.update("stock_items", d("_id", s.IntN(600)), d("$push", d("inventory.serials", fmt.Sprint("SN-NEW-", i))))
				}},
			},
		},
		{
			name: "attractions", service: "travel", pays: "outlier", fine: "relation",
			why: "three sights are on the wish lists of thousands, so a list of a city's sights carries megabytes",
			colls: []coll{{name: "attractions", n: 1000, indexes: []string{"city,rating"}, doc: func(g gen, i int) bson.D {
				n := g.near(70)
				if i%333 == 5 {
					n = 6000
				}
				return d("_id", oid(6, i), "city", g.city(), "rating", g.Float64()*5, "name", g.text(25),
					"wishlistedBy", list(n, func(int) any { return g.IntN(1_000_000) }))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.find("attractions", d("city", s.city()), by{sort: d("rating", -1), limit: 20})
				}},
				{30, func(s *session, i int) {
					s.update("attractions", d("_id", oid(6, s.IntN(1000))), d("$addToSet", d("wishlistedBy", i)))
				}},
			},
		},
		{
			name: "groups", service: "social", pays: "outlier", fine: "relation",
			why: "groups have some dozens of members with names and roles, five have thousands, and a group is shown whole",
			colls: []coll{{name: "groups", n: 400, indexes: []string{"slug"}, doc: func(g gen, i int) bson.D {
				n := g.between(10, 80)
				if i%80 == 33 {
					n = 4000
				}
				return d("_id", oid(7, i), "slug", fmt.Sprint("group-", i), "about", g.text(120),
					"members", list(n, func(int) any { return d("userId", oid(3, g.IntN(9999)), "name", g.name(), "role", "member") }))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.one("groups", d("slug", fmt.Sprint("group-", s.IntN(400))), nil) }},
				{20, func(s *session, i int) {
					member := d("userId", oid(3, i), "name", s.name(), "role", "member")
					s.update("groups", d("_id", oid(7, s.IntN(400))), d("$push", d("members", member)))
				}},
			},
		},
		{
			name: "reading_lists", service: "library", harm: "outlier",
			why: "all lists are long alike, so there are no outliers, and they are read whole",
			colls: []coll{{name: "reading_lists", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", i, "title", g.text(20), "entries", list(g.between(300, 400), func(int) any { return g.IntN(99_999) }))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.one("reading_lists", d("_id", s.IntN(300)), nil) }},
			},
		},
		{
			name: "teams", service: "crm", harm: "outlier",
			why: "some teams are huge, but the main query asks for the teams of a member, which would not see moved members",
			colls: []coll{{name: "teams", n: 800, indexes: []string{"tenant,members"}, doc: func(g gen, i int) bson.D {
				n := g.between(3, 30)
				if i%200 == 9 {
					n = 3000
				}
				return d("_id", oid(8, i), "tenant", i%5, "name", g.text(15),
					"members", list(n, func(int) any { return oid(3, g.IntN(4000)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("teams", d("tenant", i%5, "members", oid(3, s.IntN(4000))), by{fields: d("name", 1)})
				}},
				{15, func(s *session, _ int) { s.one("teams", d("_id", oid(8, s.IntN(800))), nil) }},
			},
		},
		{
			name: "carts", service: "shop",
			why: "the service keeps the newest 50 items of a cart, so that no list is long",
			colls: []coll{{name: "carts", n: 1500, doc: func(g gen, i int) bson.D {
				return d("_id", oid(9, i), "user", i, "items", list(1+g.near(50), func(int) any {
					return d("sku", fmt.Sprint("A", g.IntN(900)), "qty", g.between(1, 3), "price", g.money())
				}))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) { s.one("carts", d("_id", oid(9, s.IntN(1500))), nil) }},
				{80, func(s *session, i int) {
					item := d("sku", fmt.Sprint("A", i), "qty", 1, "price", s.money())
					push := d("$push", d("items", d("$each", a{item}, "$slice", -50)))
					s.update("carts", d("_id", oid(9, s.IntN(1500))), push)
				}},
			},
		},
		{
			name: "leads", service: "crm",
			why: "three leads have many labels, but labels are so small that no document becomes large",
			colls: []coll{{name: "leads", n: 900, indexes: []string{"owner"}, doc: func(g gen, i int) bson.D {
				n := g.between(1, 8)
				if i%300 == 4 {
					n = 150
				}
				return d("_id", i, "owner", g.IntN(30), "company", g.name(), "note", g.text(60),
					"labels", list(n, func(int) any { return g.of("hot", "cold", "fair", "vip", "old") }))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.find("leads", d("owner", s.IntN(30)), by{}) }},
				{20, func(s *session, _ int) { s.update("leads", d("_id", s.IntN(900)), d("$set", d("note", s.text(60)))) }},
			},
		},
		{
			name: "products", service: "shop", pays: "subset",
			why: "a product's page shows the newest 10 of hundreds of embedded reviews, as in MongoDB's article",
			colls: []coll{{name: "products", n: 400, indexes: []string{"category"}, doc: func(g gen, i int) bson.D {
				n := g.between(60, 200)
				return d("_id", i, "category", g.IntN(20), "title", g.text(30), "price", g.money(),
					"reviews", list(n, func(j int) any {
						return d("by", g.name(), "stars", g.between(1, 5), "at", at(5000-j), "text", g.text(100))
					}))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) { s.one("products", d("_id", s.IntN(400)), d("reviews", d("$slice", 10))) }},
				{30, func(s *session, _ int) {
					s.find("products", d("category", s.IntN(20)), by{fields: d("reviews", d("$slice", 10)), limit: 20})
				}},
				{12, func(s *session, i int) {
					review := d("by", s.name(), "stars", 4, "at", at(6000+i), "text", s.text(100))
					s.update("products", d("_id", s.IntN(400)), d("$push", d("reviews", d("$each", a{review}, "$position", 0))))
				}},
			},
		},
		{
			name: "movies", service: "media", pays: "subset",
			why: "each read unwinds all reviews of a movie and takes the five newest",
			colls: []coll{{name: "movies", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", oid(10, i), "title", g.text(25), "year", g.between(1950, 2025), "community", d("score", g.Float64()*10,
					"reviews", list(g.between(40, 200), func(j int) any {
						return d("user", g.name(), "stars", g.between(1, 10), "date", at(j), "text", g.text(140))
					})))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.aggregate("movies", d("$match", d("_id", oid(10, s.IntN(300)))), d("$unwind", "$community.reviews"),
						d("$sort", d("community.reviews.date", -1)), d("$limit", 5))
				}},
				{10, func(s *session, i int) {
					review := d("user", s.name(), "stars", 8, "date", at(9000+i), "text", s.text(140))
					s.update("movies", d("_id", oid(10, s.IntN(300))), d("$push", d("community.reviews", review)))
				}},
			},
		},
		{
			name: "users", service: "social", pays: "subset",
			why: "the bell shows the last 20 of hundreds of notifications",
			colls: []coll{{name: "users", n: 500, indexes: []string{"email"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(11, i), "email", fmt.Sprint("u", i, "@example.com"), "name", g.name(),
					"notifications", list(g.between(50, 300), func(j int) any {
						return d("kind", g.of("like", "reply", "follow"), "from", g.name(), "at", at(j), "seen", j%4 > 0)
					}))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.one("users", d("_id", oid(11, s.IntN(500))), d("name", 1, "notifications", d("$slice", -20)))
				}},
				{30, func(s *session, i int) {
					note := d("kind", "like", "from", s.name(), "at", at(9000+i), "seen", false)
					s.update("users", d("_id", oid(11, s.IntN(500))), d("$push", d("notifications", note)))
				}},
			},
		},
		{
			name: "tickets", service: "crm", pays: "subset",
			why: "a ticket's card shows its last three comments, and threads are long",
			colls: []coll{{name: "tickets", n: 500, indexes: []string{"tenantId,status"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "tenantId", i%4, "status", g.of("open", "closed", "waiting"), "subject", g.text(40),
					"comments", list(g.between(20, 90), func(j int) any { return d("by", g.name(), "at", at(i+j), "body", g.text(150)) }))
			}}},
			traffic: []requests{
				{90, func(s *session, i int) {
					s.aggregate("tickets", d("$match", d("tenantId", i%4, "status", "open")), d("$limit", 25),
						d("$project", d("subject", 1, "comments", d("$slice", a{"$comments", -3}))))
				}},
				{12, func(s *session, i int) {
					s.update("tickets", d("_id", s.IntN(500)), d("$push", d("comments", d("by", s.name(), "at", at(9000+i),
						"body", s.text(150)))))
				}},
			},
		},
		{
			name: "accounts", service: "bank", pays: "subset", fine: "bucket",
			why: "the app's first screen shows the last ten of some hundred transactions that the account holds",
			colls: []coll{{name: "accounts", n: 300, indexes: []string{"iban"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "iban", fmt.Sprintf("DE%010d", i), "owner", g.name(), "balance", g.money(),
					"transactions", list(g.between(150, 400), func(j int) any {
						return d("ts", at(j), "amount", g.money(), "purpose", g.text(40), "peer", g.name())
					}))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.one("accounts", d("iban", fmt.Sprintf("DE%010d", s.IntN(300))), d("transactions", d("$slice", -10)))
				}},
				{15, func(s *session, i int) {
					entry := d("ts", at(9000+i), "amount", s.money(), "purpose", s.text(40), "peer", s.name())
					s.update("accounts", d("_id", s.IntN(300)), d("$push", d("transactions", entry)))
				}},
			},
		},
		{
			name: "hotels", service: "travel", pays: "subset",
			why: "lists of hotels show the five best guest ratings of more than a hundred, which are kept in that order",
			colls: []coll{{name: "hotels", n: 400, indexes: []string{"city"}, doc: func(g gen, i int) bson.D {
				n := g.between(60, 180)
				return d("_id", oid(12, i), "city", g.city(), "name", g.text(20), "guestRatings", list(n, func(j int) any {
					return d("score", 100-100*j/n, "guest", g.name(), "text", g.text(90))
				}))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("hotels", d("city", s.city()), by{fields: d("guestRatings", d("$slice", 5)), limit: 15})
				}},
				{10, func(s *session, _ int) {
					rating := d("score", s.between(0, 100), "guest", s.name(), "text", s.text(90))
					push := d("$push", d("guestRatings", d("$each", a{rating}, "$sort", d("score", -1))))
					s.update("hotels", d("_id", oid(12, s.IntN(400))), push)
				}},
			},
		},
		{
			name: "classrooms", service: "school", pays: "subset",
			why: "parents see the last five of a year's announcements, and the others are hardly read",
			colls: []coll{{name: "classrooms", n: 250, indexes: []string{"school"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", i, "school", g.IntN(12), "label", fmt.Sprint(g.between(1, 13), g.of("a", "b", "c")),
					"board", d("color", "green"))
				if i%12 == 0 {
					return doc // old: without a board's announcements
				}
				doc[3].Value = d("color", "green", "announcements", list(g.between(30, 120), func(j int) any {
					return d("on", at(24*j).Format("2006-01-02"), "by", g.name(), "text", g.text(180))
				}))
				return doc
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.one("classrooms", d("_id", s.IntN(250)), d("board.announcements", d("$slice", -5)))
				}},
				{10, func(s *session, _ int) {
					text := d("on", "2026-03-01", "by", s.name(), "text", s.text(180))
					s.update("classrooms", d("_id", 1+12*s.IntN(20)), d("$push", d("board.announcements", text)))
				}},
			},
		},
		{
			name: "albums", service: "media",
			why: "three tracks are previewed of a dozen: the documents are so small that moving tracks saves nothing",
			colls: []coll{{name: "albums", n: 900, indexes: []string{"artist"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "artist", g.IntN(100), "title", g.text(20), "tracks", list(g.between(8, 14), func(j int) any {
					return d("no", j+1, "title", g.text(18), "seconds", g.between(90, 400))
				}))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.find("albums", d("artist", s.IntN(100)), by{fields: d("tracks", d("$slice", 3))})
				}},
				{40, func(s *session, _ int) { s.one("albums", d("_id", s.IntN(900)), nil) }},
			},
		},
		{
			name: "checklists", service: "crm", harm: "subset",
			why: "nine of ten reads need the whole list, which is worked off from the first to the last entry",
			colls: []coll{{name: "checklists", n: 400, doc: func(g gen, i int) bson.D {
				return d("_id", oid(13, i), "name", g.text(20), "steps", list(g.between(40, 90), func(j int) any {
					return d("no", j, "text", g.text(70), "done", g.IntN(2) == 0)
				}))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) { s.one("checklists", d("_id", oid(13, s.IntN(400))), nil) }},
				{12, func(s *session, _ int) {
					s.one("checklists", d("_id", oid(13, s.IntN(400))), d("steps", d("$slice", 5)))
				}},
			},
		},
		{
			name: "inverters", service: "iot",
			why: "the list is bounded at 100 values by $slice, and is written five times as often as it is read",
			colls: []coll{{name: "inverters", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprint("inv-", i), "site", g.city(),
					"last", list(100, func(j int) any { return d("t", minute(j), "w", g.IntN(5000)) }))
			}}},
			traffic: []requests{
				{200, func(s *session, i int) {
					push := d("$push", d("last", d("$each", a{d("t", minute(200+i), "w", s.IntN(5000))}, "$slice", -100)))
					s.update("inverters", d("_id", fmt.Sprint("inv-", s.IntN(300))), push)
				}},
				{40, func(s *session, _ int) {
					s.one("inverters", d("_id", fmt.Sprint("inv-", s.IntN(300))), d("last", d("$slice", -10)))
				}},
			},
		},
	}
}
