package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Measurements in time: series, bucket.
func thirdTimeCases() []labelled {
	return []labelled{
		{
			name: "målinger", service: "weather", pays: "series|bucket",
			why: "a document for each measurement of a station, stored twenty at a time and read by station and days",
			colls: []coll{{name: "målinger", n: 8000, indexes: []string{"stasjon,tid"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(80, i), "stasjon", key("SN", i%20), "tid", minute(i/20*10),
					"temp", float64(g.IntN(300))/10, "fukt", g.IntN(100),
					"trykk", 980+g.IntN(50))
			}}},
			traffic: []requests{
				{110, func(s *session, i int) {
					from := s.IntN(2500)
					s.window("målinger", "stasjon", key("SN", i%20), "tid", minute(from), minute(from+1440))
				}},
				{25, func(s *session, i int) {
					var batch []bson.D
					for j := range 20 {
						batch = append(batch, d("_id", oid(80, 8000+i*20+j), "stasjon", key("SN", i%20),
							"tid", minute(4000+i*200+j*10), "temp", 7.5,
							"fukt", 80, "trykk", 1000))
					}
					s.insert("målinger", batch...)
				}},
			},
		},
		{
			name: "lecturas", service: "power", pays: "series|bucket",
			why: "each quarter of an hour of a meter is a document, and a chart reads the days of one meter",
			colls: []coll{{name: "lecturas", n: 7500, indexes: []string{"medidor,hora"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(81, i), "medidor", int64(4000+i%25), "hora", minute(i/25*15),
					"kWh", float64(g.IntN(400))/100, "voltios", 220+g.IntN(20))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					from := s.IntN(3000)
					s.find("lecturas", d("medidor", int64(4000+i%25), "hora", d("$gte", minute(from),
						"$lt", minute(from+1440))),
						by{sort: d("hora", 1), fields: d("_id", 0, "hora", 1, "kWh", 1)})
				}},
				{20, func(s *session, i int) {
					var batch []bson.D
					for j := range 16 {
						batch = append(batch, d("_id", uuid(81, 7500+i*16+j), "medidor", int64(4000+i%25),
							"hora", minute(4500+i*240+j*15), "kWh", 1.25,
							"voltios", 230))
					}
					s.insert("lecturas", batch...)
				}},
			},
		},
		{
			name: "positionen", service: "railway", pays: "series|bucket",
			why: "positions of a train are a document a minute, and are only averaged by the hour for one train and day",
			colls: []coll{{name: "positionen", n: 8000, indexes: []string{"zug,zeit"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(82, i), "zug", key("ICE", i%16), "zeit", minute(i/16),
					"breite", 50+float64(g.IntN(9999))/10_000, "länge",
					8+float64(g.IntN(9999))/10_000, "kmh", g.IntN(300))
			}}},
			traffic: []requests{
				{100, func(s *session, i int) {
					from := s.IntN(250)
					s.aggregate("positionen", match("zug", key("ICE", i%16), "zeit", d("$gte", minute(from),
						"$lt", minute(from+240))),
						d("$group", d("_id", d("$dateTrunc", d("date", "$zeit", "unit", "hour")),
							"kmh", d("$avg", "$kmh"))), d("$sort", d("_id", 1)))
				}},
				{20, func(s *session, i int) {
					var batch []bson.D
					for j := range 15 {
						batch = append(batch, d("_id", oid(82, 8000+i*15+j), "zug", key("ICE", i%16),
							"zeit", minute(500+i*15+j), "breite", 50.5, "länge", 8.5,
							"kmh", 200))
					}
					s.insert("positionen", batch...)
				}},
			},
		},
		{
			name: "gazy", service: "mine", pays: "series|bucket",
			why: "gas sensors store a document a minute, of which only the newest and ranges of one sensor are read, by cursors",
			colls: []coll{{name: "gazy", n: 8000, indexes: []string{"czujnik,czas"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(83, i), "czujnik", i%20, "czas", minute(i/20), "ch4", float64(g.IntN(200))/100,
					"co", g.IntN(40))
			}}},
			traffic: []requests{
				{90, func(s *session, i int) {
					from := s.IntN(300)
					s.stream("gazy", d("czujnik", i%20, "czas", d("$gte", minute(from), "$lte", minute(from+90))),
						d("czas", 1), 60)
				}},
				{40, func(s *session, i int) { s.find("gazy", d("czujnik", i%20), by{sort: d("czas", -1), limit: 1}) }},
				{15, func(s *session, i int) {
					var batch []bson.D
					for j := range 30 {
						batch = append(batch, d("_id", oid(83, 8000+i*30+j), "czujnik", i%20,
							"czas", minute(400+i*30+j), "ch4", 0.25, "co", 3))
					}
					s.insert("gazy", batch...)
				}},
			},
		},
		{
			name: "basinclar", service: "fire", pays: "series|bucket",
			why: "a hydrant sends an hour of pressures at once, a document each, and reports take the extremes of one hydrant by day",
			colls: []coll{{name: "basinclar", n: 7200, indexes: []string{"hidrant,an"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(84, i), "hidrant", key("H", i%12), "an", minute(i/12), "bar", float64(g.IntN(100))/10)
			}}},
			traffic: []requests{
				{90, func(s *session, i int) {
					from := s.IntN(300)
					s.aggregate("basinclar", match("hidrant", key("H", i%12), "an", d("$gte", minute(from),
						"$lt", minute(from+300))),
						d("$group", d("_id", d("$dateToString", d("date", "$an", "format", "%Y-%m-%d")),
							"en_az", d("$min", "$bar"), "en_cok", d("$max", "$bar"))))
				}},
				{12, func(s *session, i int) {
					var batch []bson.D
					for j := range 60 {
						batch = append(batch, d("_id", oid(84, 7200+i*60+j), "hidrant", key("H", i),
							"an", minute(600+j), "bar", 4.5))
					}
					s.insert("basinclar", batch...)
				}},
			},
		},
		{
			name: "glycémies", service: "vet", pays: "bucket",
			why: "ranges of one animal are read, but single values are also corrected and found by their mark, which packed blocks hide",
			colls: []coll{{name: "glycémies", n: 6000, indexes: []string{"animal,quand"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(85, i), "animal", i%15, "quand", minute(i/15*5), "mmol", float64(g.IntN(150))/10,
					"alerte", i%11 == 0)
			}}},
			traffic: []requests{
				{90, func(s *session, i int) {
					from := s.IntN(1500)
					s.window("glycémies", "animal", i%15, "quand", minute(from), minute(from+360))
				}},
				{60, func(s *session, i int) {
					from := s.IntN(1000)
					s.find("glycémies", d("animal", i%15, "alerte", true, "quand", d("$gte", minute(from),
						"$lt", minute(from+700))), by{sort: d("quand", 1)})
				}},
				{40, func(s *session, i int) {
					s.update("glycémies", d("animal", i%15, "quand", minute(s.IntN(400)*5)), d("$set", d("mmol", 5.5,
						"alerte", false)))
				}},
				{20, func(s *session, i int) {
					var batch []bson.D
					for j := range 12 {
						batch = append(batch, d("_id", uuid(85, 6000+i*12+j), "animal", i%15,
							"quand", minute(2000+i*60+j*5), "mmol", 6.5, "alerte", false))
					}
					s.insert("glycémies", batch...)
				}},
			},
		},
		{
			name: "passages", service: "parking", pays: "bucket",
			why: "events of a barrier are read by barrier and hours, filtered by kind, and each has an ID and may be cancelled later",
			colls: []coll{{name: "passages", n: 7000, indexes: []string{"barrier,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("PS", i), "barrier", key("G", i%14), "at", minute(i/14), "kind", g.of("in", "out",
					"denied"), "plate", key("B", g.IntN(900)))
			}}},
			traffic: []requests{
				{90, func(s *session, i int) {
					from := s.IntN(400)
					s.window("passages", "barrier", key("G", i%14), "at", minute(from), minute(from+90))
				}},
				{60, func(s *session, i int) {
					from := s.IntN(300)
					s.find("passages", d("barrier", key("G", i%14), "at", d("$gte", minute(from),
						"$lt", minute(from+180)), "kind", "denied"), by{sort: d("at", -1)})
				}},
				{30, func(s *session, _ int) {
					n := s.IntN(7000)
					s.update("passages", d("barrier", key("G", n%14), "at", minute(n/14)), d("$set", d("kind", "cancelled")))
				}},
				{15, func(s *session, i int) {
					var batch []bson.D
					for j := range 20 {
						batch = append(batch, d("_id", ulid("PS", 7000+i*20+j), "barrier", key("G", i%14),
							"at", minute(500+i*20+j), "kind", "in", "plate", key("B", j)))
					}
					s.insert("passages", batch...)
				}},
			},
		},
		{
			name: "clima", service: "museum", pays: "bucket", fine: "series",
			why: "loggers send a value of a room twice when the network fails, so each is an upsert by room and time, and ranges are read",
			colls: []coll{{name: "clima", n: 6000, indexes: []string{"sala,quando"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(86, i), "sala", i%12, "quando", minute(i/12*5), "gradi", float64(g.IntN(300))/10,
					"umidità", g.IntN(100))
			}}},
			traffic: []requests{
				{100, func(s *session, i int) {
					from := s.IntN(1800)
					s.window("clima", "sala", i%12, "quando", minute(from), minute(from+480))
				}},
				{80, func(s *session, i int) {
					s.upsert("clima", d("sala", i%12, "quando", minute(2500+i/24*5)), d("$set", d("gradi", 20.5,
						"umidità", 50)))
				}},
			},
		},
		{
			name: "bølger", service: "weather", fine: "series|bucket",
			why: "the times are seconds since 1970 in an int, and both packages take a date as the time of a measurement",
			colls: []coll{{name: "bølger", n: 6000, indexes: []string{"bøye,sek"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(87, i), "bøye", i%12, "sek", 1_770_000_000+i/12*60, "meter", float64(g.IntN(90))/10)
			}}},
			traffic: []requests{
				{110, func(s *session, i int) {
					from := 1_770_000_000 + s.IntN(400)*60
					s.find("bølger", d("bøye", i%12, "sek", d("$gte", from, "$lt", from+5400)), by{sort: d("sek", 1)})
				}},
			},
		},
		{
			name: "visits", service: "aid",
			why: "a household is visited three times in all, so a window would hold one or two",
			colls: []coll{{name: "visits", n: 6000, indexes: []string{"household,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(88, i), "household", i%2000, "at", at(i), "people", g.between(1, 9), "score", g.IntN(100))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("visits", d("household", s.IntN(2000), "at", d("$gte", at(0))), by{sort: d("at", 1)})
				}},
				{30, func(s *session, i int) {
					s.insert("visits", d("_id", uuid(88, 6000+i), "household", s.IntN(2000), "at", at(6000+i),
						"people", 4, "score", 50))
				}},
			},
		},
		{
			name: "nyuujou", service: "festival",
			why: "entries have a gate and a time, but are looked up one at a time by the number of a ticket",
			colls: []coll{{name: "nyuujou", n: 6000, doc: func(g gen, i int) bson.D {
				return d("_id", key("TK", i), "門", i%12, "時刻", minute(i/12), "券種", g.of("一般", "学生"))
			}}},
			traffic: []requests{
				{220, func(s *session, _ int) { s.one("nyuujou", d("_id", key("TK", s.IntN(6000))), nil) }},
				{40, func(s *session, i int) {
					s.insert("nyuujou", d("_id", key("TK", 6000+i), "門", i%12, "時刻", minute(500+i), "券種", "一般"))
				}},
			},
		},
		{
			name: "logbuch", service: "railway", fine: "archive",
			why: "entries of all signal boxes are read together by time, and no query names a box, which a series would need",
			colls: []coll{{name: "logbuch", n: 6000, indexes: []string{"zeit"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(89, i), "stellwerk", i%300, "zeit", minute(i), "eintrag", g.text(40))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					from := s.IntN(5000)
					s.find("logbuch", d("zeit", d("$gte", minute(from), "$lt", minute(from+60))), by{sort: d("zeit", 1)})
				}},
				{30, func(s *session, i int) {
					s.insert("logbuch", d("_id", oid(89, 6000+i), "stellwerk", s.IntN(300), "zeit", minute(6000+i),
						"eintrag", s.text(40)))
				}},
			},
		},
		{
			name: "jam", service: "quiz", fine: "series",
			why: "the documents already are hours of one room with their 60 minutes in an array",
			colls: []coll{{name: "jam", n: 600, indexes: []string{"ruang,mulai"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(90, i), "ruang", i%10, "mulai", minute(i/10*60), "jumlah", 60,
					"menit", list(60, func(j int) any { return d("pada", minute(i/10*60+j), "pemain", g.IntN(500)) }))
			}}},
			traffic: []requests{
				{110, func(s *session, i int) {
					from := s.IntN(50) * 60
					s.find("jam", d("ruang", i%10, "mulai", d("$gte", minute(from), "$lt", minute(from+360))),
						by{sort: d("mulai", 1)})
				}},
			},
		},
		{
			name: "estado", service: "power", fine: "bucket|series",
			why: "the last value of a minute is set again and again, which is for slots, and slots has no detector",
			colls: []coll{{name: "estado", n: 4000, indexes: []string{"planta,minuto"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(91, i), "planta", i%20, "minuto", minute(i/20), "MW", g.IntN(900))
			}}},
			traffic: []requests{
				{240, func(s *session, i int) {
					s.upsert("estado", d("planta", i%20, "minuto", minute(199)), d("$set", d("MW", s.IntN(900))))
				}},
				{40, func(s *session, i int) { s.find("estado", d("planta", i%20), by{sort: d("minuto", -1), limit: 1}) }},
			},
		},
	}
}
