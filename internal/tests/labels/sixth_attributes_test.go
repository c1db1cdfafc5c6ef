package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

var (
	sixthPollen = columns("pollen_", []string{"acacia", "chestnut", "clover", "fir", "heather", "lavender", "linden",
		"maple", "oak", "pine",
		"rape", "rosemary", "sage", "sunflower", "thyme", "willow"})
	sixthStones = columns("gur_", []string{"andezit", "bazalt", "breçe", "diorit", "gabro", "gneis", "granit", "marmer",
		"oniks", "porfir",
		"rëre", "serpentin", "shist", "travertin", "tuf"})
	sixthSensors = columns("cam", []string{"Alt", "Bat", "Co2", "Dust", "Echo", "Fog", "Gas", "Heat", "Ir", "Laser",
		"Lidar", "Mag", "Noise",
		"Ozone", "Radar", "Uv", "Wind", "Zoom"})
	sixthAudiences = columns("seg", []string{"Art", "Auto", "Baby", "Bike", "Boat", "Book", "Cook", "Dog", "Film", "Golf",
		"Home", "Kids",
		"Moto", "News", "Pets", "Ski", "Surf", "Tech", "Wine", "Yoga"})
	sixthFabrics = columns("tkanina_", []string{"aksamit", "atłas", "bawełna", "dżins", "flanela", "jedwab", "kaszmir",
		"kreton", "len",
		"moher", "plusz", "sztruks", "tiul", "tweed", "wełna", "żorżeta"})
	sixthPlatforms = columns("share", []string{"Bsky", "Discord", "Fb", "Ig", "Imgur", "Mail", "Mastodon", "Pin", "Reddit",
		"Sms", "Telegram",
		"Tumblr", "Viber", "Vk", "Wa", "X"})
)

// Many similar fields: attribute.
func sixthAttributeCases() []labelled {
	return []labelled{
		{
			name: "honeys", service: "apiary", pays: "attribute",
			why: "a honey has the pollen of three or four of 16 plants, each in a field with an index, and buyers filter by any plant",
			colls: []coll{{"honeys", 1800, sixthPollen, func(g gen, i int) bson.D {
				return append(d("_id", key("L", i), "jar", g.between(1, 9)),
					g.scattered("", sixthPollen, g.between(3, 4), func() any { return g.between(1, 90) })...)
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) { s.find("honeys", d(s.of(sixthPollen...), d("$gte", 60)), by{limit: 50}) }},
				{10, func(s *session, _ int) {
					s.update("honeys", d("_id", key("L", s.IntN(1800))), d("$set", d(s.of(sixthPollen...), s.between(1, 90))))
				}},
			},
		},
		{
			name: "monumentet", service: "cemetery", pays: "attribute",
			why: "a monument has two or three of 15 stones with their kilograms, and masons look for any stone over an index of its own",
			colls: []coll{{"monumentet", 1600, sixthStones, func(g gen, i int) bson.D {
				return append(d("_id", serial("M", i), "viti", g.between(1850, 2025)),
					g.scattered("", sixthStones, g.between(2, 3), func() any { return g.between(20, 900) })...)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("monumentet", d(s.of(sixthStones...), d("$gt", 700)), by{limit: 30}) }},
				{8, func(s *session, _ int) {
					s.update("monumentet", d("_id", serial("M", s.IntN(1600))), d("$set", d(s.of(sixthStones...), 300)))
				}},
			},
		},
		{
			name: "payloads", service: "drones", pays: "attribute",
			why: "a payload carries two to four of 18 sensors, each with its range and an index, and planners search by any of them",
			colls: []coll{{"payloads", 1700, sixthSensors, func(g gen, i int) bson.D {
				return append(d("_id", uuid(65, i), "grams", g.between(80, 900)),
					g.scattered("", sixthSensors, g.between(2, 4), func() any { return g.money() })...)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.linq("payloads", d(s.of(sixthSensors...), d("$gte", 150.0)), d("$limit", 20))
				}},
				{10, func(s *session, _ int) {
					s.update("payloads", d("_id", uuid(65, s.IntN(1700))), d("$set", d(s.of(sixthSensors...), s.money())))
				}},
			},
		},
		{
			name: "audiences", service: "adserver", pays: "attribute",
			why: "a visitor has a score in some of 20 interests, each a field with an index, and a campaign asks for one interest",
			colls: []coll{{"audiences", 2000, sixthAudiences, func(g gen, i int) bson.D {
				return append(d("_id", snow(9, i), "seen", at(i)),
					g.scattered("", sixthAudiences, g.between(2, 5), func() any { return int32(g.between(1, 100)) })...)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("audiences", d(s.of(sixthAudiences...), d("$gt", 80)), by{limit: 100}) }},
				{10, func(s *session, _ int) {
					s.update("audiences", d("_id", snow(9, s.IntN(2000))), d("$set", d(s.of(sixthAudiences...), int32(50))))
				}},
			},
		},
		{
			name: "ubrania", service: "tailor", pays: "attribute",
			why: "a garment is of one to three of 16 fabrics, each a field with its percent and an index, and buyers ask for any fabric",
			colls: []coll{{"ubrania", 1800, sixthFabrics, func(g gen, i int) bson.D {
				return append(d("_id", oid(71, i), "krój", g.text(10)),
					g.scattered("", sixthFabrics, g.between(1, 3), func() any { return g.between(5, 100) })...)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					field := s.of(sixthFabrics...)
					s.find("ubrania", d(field, d("$gte", 50)), by{sort: d(field, -1), limit: 40})
				}},
				{10, func(s *session, i int) {
					s.insert("ubrania", d("_id", oid(71, 9000+i), "krój", "nowy", s.of(sixthFabrics...), 100))
				}},
			},
		},
		{
			name: "shares", service: "memes", pays: "attribute",
			why: "a picture was shared on a few of 16 platforms, each number is a field with an index, and a chart is of one platform",
			colls: []coll{{"shares", 1800, sixthPlatforms, func(g gen, i int) bson.D {
				return append(d("_id", meteor('s', i), "at", at(i)),
					g.scattered("", sixthPlatforms, g.between(2, 4), func() any { return int64(g.near(90_000)) })...)
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					field := s.of(sixthPlatforms...)
					s.find("shares", d(field, d("$gt", 20_000)), by{sort: d(field, -1), limit: 20})
				}},
				{10, func(s *session, _ int) {
					s.update("shares", d("_id", meteor('s', s.IntN(1800))), d("$set", d(s.of(sixthPlatforms...), int64(9))))
				}},
			},
		},
		{
			name: "broden", service: "bakery", harm: "attribute",
			why: "every bread has all of its ten values, so entries would repeat ten names in each document and the index would be larger",
			colls: []coll{{"broden", 1200, []string{"zout", "suiker", "vet"}, func(g gen, i int) bson.D {
				return append(d("_id", int32(i)), d(pairs([]string{"zout", "suiker", "vet", "eiwit", "vezel", "water",
					"gluten", "gist",
					"melk", "noot"}, func(string) any { return g.between(0, 60) })...)...)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("broden", d(s.of("zout", "suiker", "vet"), d("$lt", 5)), by{limit: 30})
				}},
			},
		},
		{
			name: "kabinen", service: "elevators",
			why: "only some cabins have one of twelve extras, but nobody searches by them, and none has an index",
			colls: []coll{{"kabinen", 1000, []string{"haus"}, func(g gen, i int) bson.D {
				return append(d("_id", oid(72, i), "haus", int32(i%90)),
					g.scattered("extra_", []string{"spiegel", "sitz", "glas", "musik", "ruf", "licht", "bild", "braille",
						"uhr", "duft", "tür", "teppich"},
						2, func() any { return g.text(6) })...)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("kabinen", d("haus", int32(s.IntN(90))), by{}) }},
			},
		},
		{
			name: "waste_codes", service: "waste",
			why: "two optional fields are few, and two sparse indexes cost less than an array of keys and values in each document",
			colls: []coll{{"waste_codes", 1500, []string{"un", "ewc"}, func(g gen, i int) bson.D {
				doc := d("_id", key("w", i), "name", g.text(20))
				if i%9 == 0 {
					doc = append(doc, bson.E{Key: "un", Value: g.between(1000, 3000)})
				}
				if i%7 == 0 {
					doc = append(doc, bson.E{Key: "ewc", Value: g.between(100, 900)})
				}
				return doc
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("waste_codes", d("un", s.between(1000, 3000)), by{limit: 10}) }},
				{60, func(s *session, _ int) { s.find("waste_codes", d("ewc", s.between(100, 900)), by{limit: 10}) }},
			},
		},
	}
}
