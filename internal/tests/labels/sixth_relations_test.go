package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// References that are followed one by one, or grow: relation.
func sixthRelationCases() []labelled {
	return []labelled{
		{
			name: "gebäude", service: "elevators", pays: "relation", fine: "extref",
			why: "the page of a house loads each of its lifts whole by a findOne, and some lifts that it lists are scrapped",
			colls: []coll{
				{"gebäude", 220, nil, func(g gen, i int) bson.D {
					return d("_id", int32(i), "straße", g.text(14),
						"anlagen", list(g.between(5, 10), func(int) any { return uuid(70, g.IntN(1000)) }))
				}},
				{"anlagen", 920, nil, func(g gen, i int) bson.D {
					return d("_id", uuid(70, i), "typ", g.text(8), "kg", g.IntN(900), "baujahr", 1980, "prüfung", at(i),
						"bericht", g.text(90),
						"etagen", g.IntN(30), "firma", g.text(12))
				}},
			},
			traffic: []requests{
				{30, func(s *session, _ int) {
					for _, lift := range s.one("gebäude", d("_id", int32(s.IntN(220))), nil)["anlagen"].(a) {
						s.one("anlagen", d("_id", lift), nil)
					}
				}},
			},
		},
		{
			name: "studios", service: "tattoo", pays: "relation", fine: "subset|computed",
			why: "a city's page reads its studios and then the chairs of each studio by a find of its own",
			colls: []coll{
				{"studios", 240, []string{"city"}, func(g gen, i int) bson.D {
					return d("_id", meteor('t', i), "city", int32(i%24), "name", g.text(12))
				}},
				{"chairs", 1400, []string{"studio"}, func(g gen, i int) bson.D {
					return d("_id", oid(79, i), "studio", meteor('t', i%240), "artist", g.name(), "free", i%3 == 0,
						"note", g.text(80))
				}},
			},
			traffic: []requests{
				{30, func(s *session, _ int) {
					for _, studio := range s.find("studios", d("city", int32(s.IntN(24))), by{}) {
						s.find("chairs", d("studio", studio["_id"]), by{})
					}
				}},
			},
		},
		{
			name: "camp_guests", service: "caravan", pays: "relation", fine: "subset|outlier",
			why: "a camp embeds some hundred cars, the barrier asks for one car by its plate alone, and no read shows the others",
			colls: []coll{{"camp_guests", 90, []string{"cars.plate"}, func(g gen, i int) bson.D {
				return d("_id", i, "camp", g.text(12), "cars", list(g.between(120, 200), func(j int) any {
					return d("plate", key("P", i*200+j), "owner", g.name(), "m", g.between(4, 9), "note", g.text(50))
				}))
			}}},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.one("camp_guests", d("cars.plate", key("P", s.IntN(90)*200+s.IntN(120))), d("cars.$", 1))
				}},
				{30, func(s *session, _ int) {
					plate := key("P", s.IntN(90)*200+s.IntN(120))
					s.update("camp_guests", d("cars.plate", plate), d("$set", d("cars.$.note", s.text(50))))
				}},
			},
		},
		{
			name: "apiaries", service: "apiary", pays: "relation", fine: "extref|subset",
			why: "the round reads all yards of a keeper and then the colonies of each yard one after the other",
			colls: []coll{
				{"apiaries", 300, []string{"keeper"}, func(g gen, i int) bson.D {
					return d("_id", key("Y", i), "keeper", int64(i%40), "place", g.text(14))
				}},
				{"colonies", 1800, []string{"yard"}, func(g gen, i int) bson.D {
					return d("_id", oid(80, i), "yard", key("Y", i%300), "queen", g.text(6), "temper", g.IntN(5), "log", g.text(90))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					for _, yard := range s.linq("apiaries", d("keeper", int64(s.IntN(40)))) {
						s.find("colonies", d("yard", yard["_id"]), by{sort: d("queen", 1)})
					}
				}},
			},
		},
		{
			name: "channels", service: "memes", pays: "relation", fine: "extref",
			why: "a channel shows its dozen pinned posts, each of which is loaded whole by its own findOne",
			colls: []coll{
				{"channels", 200, nil, func(g gen, i int) bson.D {
					return d("_id", i, "title", g.text(10),
						"pinned", list(g.between(8, 12), func(int) any { return meteor('o', g.IntN(900)) }))
				}},
				{"posts", 900, nil, func(g gen, i int) bson.D {
					return d("_id", meteor('o', i), "pic", g.text(20), "at", at(i), "words", g.text(60), "w", 800, "h", 600,
						"by", g.name(), "nsfw", false)
				}},
			},
			traffic: []requests{
				{30, func(s *session, _ int) {
					for _, post := range s.one("channels", d("_id", s.IntN(200)), nil)["pinned"].(a) {
						s.one("posts", d("_id", post), nil)
					}
				}},
			},
		},
		{
			name: "supporters_of", service: "petitions", pays: "relation", fine: "subset|outlier",
			why: "each city pushes the IDs of its supporters into one array of a thousand without a bound, where an owner in the child suits any number",
			colls: []coll{
				{"supporters_of", 20, nil, func(g gen, i int) bson.D {
					return d("_id", int32(i), "city", key("city", i),
						"supporters", list(1000, func(j int) any { return oid(81, i*1000+j) }))
				}},
				{"supporters", 20_000, []string{"mail"}, func(g gen, i int) bson.D {
					return d("_id", oid(81, i), "mail", key("m", i), "name", g.name(), "since", at(i))
				}},
			},
			traffic: []requests{
				{90, func(s *session, i int) {
					s.insert("supporters", d("_id", oid(81, 20_000+i), "mail", key("m", 20_000+i), "name", s.name(),
						"since", at(i)))
					s.update("supporters_of", d("_id", int32(s.IntN(20))), d("$push", d("supporters", oid(81, 20_000+i))))
				}},
				{60, func(s *session, _ int) {
					ids := s.one("supporters_of", d("_id", int32(s.IntN(20))), nil)["supporters"].(a)
					s.find("supporters", d("_id", d("$in", ids[:50])), by{})
				}},
			},
		},
		{
			name: "measurements_of", service: "tailor", pays: "relation", fine: "extref",
			why: "the one sheet of measures of a customer is only read with the customer, by a join every time, so it belongs into the customer",
			colls: []coll{
				{"measurements_of", 600, []string{"customer"}, func(g gen, i int) bson.D {
					return d("_id", oid(82, i), "customer", oid(83, i), "waist", 80, "arm", 61, "leg", 90, "neck", 40,
						"chest", 99, "hip", 95, "note", g.text(40))
				}},
				{"clients", 600, nil, func(g gen, i int) bson.D {
					return d("_id", oid(83, i), "name", g.name(),
						"phone", g.text(9))
				}},
			},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("clients", match("_id", oid(83, s.IntN(600))), join("measurements_of", "_id", "customer", "sheet"))
				}},
			},
		},
		{
			name: "gruppe", service: "drones", pays: "relation", fine: "extref",
			why: "a team's page reads the team and then each of its aircraft whole by the number of the aircraft",
			colls: []coll{
				{"gruppe", 180, nil, func(g gen, i int) bson.D {
					return d("_id", ulid("G", i), "navn", g.text(10),
						"droner", list(g.between(5, 9), func(int) any { return int64(g.IntN(700)) }))
				}},
				{"droner", 700, nil, func(g gen, i int) bson.D {
					return d("_id", int64(i), "model", g.text(8), "reg", g.text(8), "købt", at(i), "fejl", g.text(60),
						"motor", 4, "kg", 2, "ejer", g.name())
				}},
			},
			traffic: []requests{
				{35, func(s *session, _ int) {
					for _, id := range s.first("gruppe", d("_id", ulid("G", s.IntN(180))))["droner"].(a) {
						s.first("droner", d("_id", id))
					}
				}},
			},
		},
		{
			name: "kontakty", service: "waste",
			why: "a customer has one to three addresses, which are read with the customer and never searched alone, so they stay embedded",
			colls: []coll{{"kontakty", 900, nil, func(g gen, i int) bson.D {
				return d("_id", int32(i), "jméno", g.name(),
					"adresy", list(g.between(1, 3), func(int) any { return d("ul", g.text(14), "m", g.city()) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("kontakty", d("_id", int32(s.IntN(900))), nil) }},
				{20, func(s *session, _ int) {
					s.update("kontakty", d("_id", int32(s.IntN(900)), "adresy.m", "Riga"), d("$set", d("adresy.$.ul", s.text(14))))
				}},
			},
		},
		{
			name: "reward_pledges", service: "crowdfunding", fine: "extref|relation",
			why: "a batch loader reads the tiers whole by one $in after the pledges, which are the two round trips that relation takes as well",
			colls: []coll{
				{"reward_pledges", 900, []string{"user"}, func(g gen, i int) bson.D {
					return d("_id", oid(84, i), "user", i%100, "tier", key("rt", g.IntN(150)))
				}},
				{"reward_tiers", 150, nil, func(g gen, i int) bson.D {
					return d("_id", key("rt", i), "a", g.text(10), "b", g.text(10), "c", g.text(10), "d", 1, "e", 2, "f", 3,
						"g", 4, "h", 5)
				}},
			},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.populate("reward_tiers", s.find("reward_pledges", d("user", s.IntN(100)), by{}), "tier", nil)
				}},
			},
		},
		{
			name: "sessions_auth", service: "bakery", fine: "extref",
			why: "each request reads the session and then its one user, which is no loop, and the user must be read fresh for the rights",
			colls: []coll{
				{"sessions_auth", 600, nil, func(g gen, i int) bson.D {
					return d("_id", uuid(71, i), "user", int64(i%150),
						"seen", at(i))
				}},
				{"staff", 150, nil, func(g gen, i int) bson.D {
					return d("_id", int64(i), "name", g.name(), "rights", list(4, func(int) any { return g.text(5) }),
						"hash", g.text(60))
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					user := s.one("sessions_auth", d("_id", uuid(71, s.IntN(600))), nil)["user"]
					s.one("staff", d("_id", user), nil)
				}},
				{60, func(s *session, i int) {
					s.update("sessions_auth", d("_id", uuid(71, s.IntN(600))), d("$set", d("seen", at(i))))
				}},
			},
		},
	}
}
