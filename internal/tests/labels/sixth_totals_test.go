package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Numbers that are computed from many documents: computed.
func sixthTotalCases() []labelled {
	return []labelled{
		{
			name: "pledge_sums", service: "crowdfunding", pays: "computed",
			why: "each view of a campaign adds up its hundreds of pledges again, and one is made for sixty views",
			colls: []coll{
				{"pledge_sums", 5000, []string{"campaign"}, func(g gen, i int) bson.D {
					return d("_id", oid(86, i), "campaign", uuid(73, i%20), "cents", g.between(100, 9000))
				}},
				{"campaign_pages", 20, nil, func(g gen, i int) bson.D {
					return d("_id", uuid(73, i), "title", g.text(20),
						"goal", 90_000)
				}},
			},
			traffic: []requests{
				{220, func(s *session, _ int) {
					id := uuid(73, s.IntN(20))
					s.one("campaign_pages", d("_id", id), nil)
					s.aggregate("pledge_sums", match("campaign", id), group("_id", nil, "sum", d("$sum", "$cents"),
						"n", d("$sum", 1)))
				}},
				{4, func(s *session, i int) {
					s.insert("pledge_sums", d("_id", oid(86, 9000+i), "campaign", uuid(73, i), "cents", 500))
				}},
			},
		},
		{
			name: "riegungen", service: "elevators", pays: "computed",
			why: "the board of a house shows trips and mean load of its lift, grouped for each reader, out of data of one write an hour",
			colls: []coll{
				{"riegungen", 5000, []string{"lift"}, func(g gen, i int) bson.D {
					return d("_id", snow(10, i), "lift", int32(i%25), "last", g.between(60, 900), "von", g.IntN(9),
						"nach", g.IntN(9))
				}},
				{"lift_board", 25, nil, func(g gen, i int) bson.D { return d("_id", int32(i), "haus", g.text(12)) }},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.linq("riegungen", d("lift", int32(s.IntN(25))), group("_id", "$lift", "fahrten", d("$sum", 1),
						"last", d("$avg", "$last")))
				}},
				{20, func(s *session, _ int) { s.one("lift_board", d("_id", int32(s.IntN(25))), nil) }},
				{3, func(s *session, i int) {
					s.insert("riegungen", d("_id", snow(10, 9000+i), "lift", int32(i), "last", 80, "von", 0, "nach", 4))
				}},
			},
		},
		{
			name: "recoltes", service: "apiary", pays: "computed",
			why: "the card of a yard shows kilograms and best harvest out of two hundred harvests, which come once a season",
			colls: []coll{
				{"recoltes", 4000, []string{"rucher"}, func(g gen, i int) bson.D {
					return d("_id", key("r", i), "rucher", key("R", i%20), "kg", g.money(), "an", 2000+g.IntN(25))
				}},
				{"ruchers", 20, nil, func(g gen, i int) bson.D { return d("_id", key("R", i), "lieu", g.text(12)) }},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					id := key("R", s.IntN(20))
					s.one("ruchers", d("_id", id), nil)
					s.aggregate("recoltes", match("rucher", id), group("_id", "$rucher", "total", d("$sum", "$kg"),
						"max", d("$max", "$kg")))
				}},
				{3, func(s *session, i int) {
					s.insert("recoltes", d("_id", key("r", 9000+i), "rucher", key("R", i), "kg", 9.5, "an", 2026))
				}},
			},
		},
		{
			name: "besøk", service: "caravan", pays: "computed", fine: "subset",
			why: "a camp's page shows number and mean of its stars out of 250 ratings by an aggregation, and one rating comes a day",
			colls: []coll{
				{"besøk", 4500, []string{"plass"}, func(g gen, i int) bson.D {
					return d("_id", oid(87, i), "plass", int32(i%18), "stjerner", g.between(1, 5), "gjest", g.name())
				}},
				{"plasser_kort", 18, nil, func(g gen, i int) bson.D {
					return d("_id", int32(i), "navn", g.text(10),
						"by", g.city())
				}},
			},
			traffic: []requests{
				{210, func(s *session, _ int) {
					id := int32(s.IntN(18))
					s.one("plasser_kort", d("_id", id), nil)
					s.aggregate("besøk", match("plass", id), group("_id", "$plass", "snitt", d("$avg", "$stjerner"),
						"antall", d("$sum", 1)))
				}},
				{3, func(s *session, i int) {
					s.insert("besøk", d("_id", oid(87, 9000+i), "plass", int32(i), "stjerner", 5, "gjest", s.name()))
				}},
			},
		},
		{
			name: "clicks_of_day", service: "adserver", pays: "computed",
			why: "every look at a customer's report groups 300 rows of days again, and the rows are loaded once a night",
			colls: []coll{
				{"clicks_of_day", 4500, []string{"client"}, func(g gen, i int) bson.D {
					return d("_id", int64(i), "client", key("cl", i%15), "day", at(i*24), "clicks", g.IntN(900), "cost", g.money())
				}},
				{"clients_of_ads", 15, nil, func(g gen, i int) bson.D { return d("_id", key("cl", i), "name", g.text(12)) }},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					id := key("cl", s.IntN(15))
					s.one("clients_of_ads", d("_id", id), nil)
					s.aggregate("clicks_of_day", match("client", id), group("_id", nil, "clicks", d("$sum", "$clicks"),
						"cost", d("$sum", "$cost")))
				}},
				{3, func(s *session, i int) {
					s.insert("clicks_of_day", d("_id", int64(9000+i), "client", key("cl", i), "day", at(0), "clicks", 4,
						"cost", 1.5))
				}},
			},
		},
		{
			name: "podpisy", service: "petitions", pays: "computed",
			why: "the page of a petition counts its hundreds of valid signatures for each visitor, and new ones come rarely",
			colls: []coll{
				{"podpisy", 5000, []string{"petycja,ważny"}, func(g gen, i int) bson.D {
					return d("_id", meteor('u', i), "petycja", i%16, "ważny", i%11 != 0, "miasto", g.city())
				}},
				{"petycje", 16, nil, func(g gen, i int) bson.D { return d("_id", i, "tytuł", g.text(25)) }},
			},
			traffic: []requests{
				{220, func(s *session, _ int) {
					id := s.IntN(16)
					s.one("petycje", d("_id", id), nil)
					s.count("podpisy", d("petycja", id, "ważny", true))
				}},
				{3, func(s *session, i int) {
					s.insert("podpisy", d("_id", meteor('u', 9000+i), "petycja", i, "ważny", true, "miasto", s.city()))
				}},
			},
		},
		{
			name: "order_items_by_garment", service: "tailor", pays: "computed",
			why: "a garment's card sums its pieces over all orders, whose lines hold the garment, for each look, and few orders come",
			colls: []coll{
				{"order_items_by_garment", 2500, []string{"lines.garment"}, func(g gen, i int) bson.D {
					return d("_id", oid(88, i), "by", g.name(), "lines", list(g.between(1, 3), func(int) any {
						return d("garment", int64(g.IntN(20)), "n", g.between(1, 6))
					}))
				}},
				{"garments", 20, nil, func(g gen, i int) bson.D { return d("_id", int64(i), "cut", g.text(10)) }},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					id := int64(s.IntN(20))
					s.one("garments", d("_id", id), nil)
					s.aggregate("order_items_by_garment", match("lines.garment", id), d("$unwind",
						"$lines"), match("lines.garment", id),
						group("_id", "$lines.garment", "sold", d("$sum", "$lines.n")))
				}},
				{3, func(s *session, i int) {
					s.insert("order_items_by_garment", d("_id", oid(88, 9000+i), "by", s.name(),
						"lines", a{d("garment", int64(i), "n", 2)}))
				}},
			},
		},
		{
			name: "vlucht_minuten", service: "drones", pays: "computed",
			why: "hours of a pilot are added up by $lookup with a $group inside it, each time that the licence is shown",
			colls: []coll{
				{"vlucht_minuten", 4000, []string{"piloot"}, func(g gen, i int) bson.D {
					return d("_id", uuid(74, i), "piloot", oid(89, i%20), "min", g.between(2, 40))
				}},
				{"piloten", 20, nil, func(g gen, i int) bson.D {
					return d("_id", oid(89, i), "naam", g.name(),
						"bewijs", g.text(9))
				}},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.aggregate("piloten", match("_id", oid(89, s.IntN(20))), d("$lookup", d("from", "vlucht_minuten",
						"localField", "_id",
						"foreignField", "piloot", "pipeline", a{d("$group", d("_id", nil, "min", d("$sum", "$min")))},
						"as", "totaal")))
				}},
				{3, func(s *session, i int) {
					s.insert("vlucht_minuten", d("_id", uuid(74, 9000+i), "piloot", oid(89, i), "min", 9))
				}},
			},
		},
		{
			name: "till_lines", service: "bakery", harm: "computed",
			why: "sales are written twice for each look at the sum of a shop, and a value that changes as often as it is read is aggregated",
			colls: []coll{
				{"till_lines", 3000, []string{"shop"}, func(g gen, i int) bson.D {
					return d("_id", oid(90, i), "shop", int32(i%15), "cents", g.between(50, 900))
				}},
				{"tills", 15, nil, func(g gen, i int) bson.D { return d("_id", int32(i), "name", g.text(9)) }},
			},
			traffic: []requests{
				{70, func(s *session, _ int) {
					s.aggregate("till_lines", match("shop", int32(s.IntN(15))), group("_id", "$shop", "sum", d("$sum", "$cents")))
				}},
				{160, func(s *session, i int) {
					s.insert("till_lines", d("_id", oid(90, 9000+i), "shop", int32(s.IntN(15)), "cents", 320))
				}},
			},
		},
		{
			name: "tonnen", service: "waste", fine: "bucket|series",
			why: "the map groups the loads between two dates that its user drags, and no stored value answers any range",
			colls: []coll{{"tonnen", 3000, []string{"datum"}, func(g gen, i int) bson.D {
				return d("_id", int64(i), "datum", at(i), "bezirk", g.IntN(400), "kg", g.between(100, 900))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					from := s.IntN(2800)
					s.aggregate("tonnen", match("datum", d("$gte", at(from), "$lt", at(from+s.between(20, 150)))),
						group("_id", "$bezirk", "kg", d("$sum", "$kg")))
				}},
			},
		},
		{
			name: "bookings_few", service: "tattoo", harm: "computed",
			why: "an artist has three open bookings, so the sum examines three documents behind an index, which is as cheap as a copy",
			colls: []coll{
				{"bookings_few", 600, []string{"artist"}, func(g gen, i int) bson.D {
					return d("_id", meteor('g', i), "artist", meteor('h', i%200), "hours", g.between(1, 6))
				}},
				{"artist_cards", 200, nil, func(g gen, i int) bson.D { return d("_id", meteor('h', i), "name", g.name()) }},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("bookings_few", match("artist", meteor('h', s.IntN(200))), group("_id", "$artist",
						"h", d("$sum", "$hours")))
				}},
				{40, func(s *session, i int) {
					s.insert("bookings_few", d("_id", meteor('g', 9000+i), "artist", meteor('h', s.IntN(200)), "hours", 2))
				}},
			},
		},
	}
}
