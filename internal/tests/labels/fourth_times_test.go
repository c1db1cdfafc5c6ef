package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Measurements and events: series, bucket.
func fourthTimeCases() []labelled {
	batch := func(n int, f func(i int) bson.D) []bson.D {
		out := make([]bson.D, n)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	seconds := func(i int) int64 { return minute(i).Unix() }
	return []labelled{
		{
			name: "телеметрия", service: "satellite", pays: "series", fine: "bucket",
			why: "three numbers a minute of each craft come in batches of 60, are read by range, and never change",
			colls: []coll{{name: "телеметрия", n: 7200, indexes: []string{"аппарат,время"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(30, i), "аппарат", 25_000+i%6, "время", minute(i/6), "вольт", 28+g.Float64(),
					"ампер", g.money(), "темп", g.between(-20, 60))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("телеметрия", batch(60, func(j int) bson.D {
						return d("_id", snow(30, 10_000+i*60+j), "аппарат", 25_000+i%6, "время", minute(1200+i/6*60+j), "вольт", 28.5,
							"ампер", s.money(), "темп", 20)
					})...)
				}},
				{140, func(s *session, _ int) {
					from := s.IntN(1000)
					s.window("телеметрия", "аппарат", 25_000+s.IntN(6), "время", minute(from), minute(from+120))
				}},
			},
		},
		{
			name: "lämpötilat", service: "warehouse", pays: "series", fine: "bucket",
			why: "sensors of the cold store send 50 values at a time, and the screens draw hours of one sensor",
			colls: []coll{{name: "lämpötilat", n: 6000, indexes: []string{"anturi,aika"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(80, i), "anturi", key("A", i%5), "aika", minute(i/5),
					"aste", float64(g.between(-250, -150))/10, "kosteus", g.between(30, 90))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("lämpötilat", batch(50, func(j int) bson.D {
						return d("anturi", key("A", i%5), "aika", minute(1200+i/5*50+j), "aste", -20.5, "kosteus", s.between(30, 90))
					})...)
				}},
				{140, func(s *session, _ int) {
					from := s.IntN(1000)
					s.window("lämpötilat", "anturi", key("A", s.IntN(5)), "aika", minute(from), minute(from+180))
				}},
			},
		},
		{
			name: "kvašení", service: "brewery", pays: "series", fine: "bucket",
			why: "a tank's values arrive in batches of 40, and charts and means ask for ranges of one tank",
			colls: []coll{{name: "kvašení", n: 6000, indexes: []string{"tank,cas"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(81, i), "tank", int32(i%4), "cas", minute(i/4), "teplota", float64(g.between(80, 140))/10,
					"cukr", float64(g.between(20, 120))/10)
			}}},
			traffic: []requests{
				{24, func(s *session, i int) {
					s.insert("kvašení", batch(40, func(j int) bson.D {
						return d("tank", int32(i%4), "cas", minute(1500+i/4*40+j), "teplota", 10.5, "cukr", float64(s.between(20, 120))/10)
					})...)
				}},
				{90, func(s *session, _ int) {
					from := s.IntN(1200)
					s.window("kvašení", "tank", int32(s.IntN(4)), "cas", minute(from), minute(from+240))
				}},
				{50, func(s *session, _ int) {
					from := s.IntN(1200)
					s.aggregate("kvašení", match("tank", int32(s.IntN(4)), "cas", d("$gte", minute(from), "$lt", minute(from+240))),
						d("$group", d("_id", nil, "teplota", d("$avg", "$teplota"))))
				}},
			},
		},
		{
			name: "toạ_độ", service: "taxi", pays: "series|bucket",
			why: "the phones send positions in batches of 100, and a trip is drawn from a range of one car",
			colls: []coll{{name: "toạ_độ", n: 8000, indexes: []string{"xe,lúc"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(31, i), "xe", i%8, "lúc", minute(i/8), "vĩ", 10.7+float64(i%700)/7000,
					"kinh", 106.6+g.Float64()/10, "km_h", g.between(0, 70))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("toạ_độ", batch(100, func(j int) bson.D {
						return d("_id", snow(31, 10_000+i*100+j), "xe", i%8, "lúc", minute(1000+i/8*100+j), "vĩ", 10.75,
							"kinh", 106.65, "km_h", s.between(0, 70))
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(900)
					s.window("toạ_độ", "xe", s.IntN(8), "lúc", minute(from), minute(from+45))
				}},
			},
		},
		{
			name: "snødybde", service: "ski", pays: "series|bucket",
			why: "depths with their time in seconds since 1970 come in batches and are read by range of one station",
			colls: []coll{{name: "snødybde", n: 6000, indexes: []string{"stasjon,ts"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(82, i), "stasjon", key("ST", i%5), "ts", seconds(i/5*10), "cm", g.between(20, 240),
					"vind", g.between(0, 30))
			}}},
			traffic: []requests{
				{20, func(s *session, i int) {
					s.insert("snødybde", batch(50, func(j int) bson.D {
						return d("stasjon", key("ST", i%5), "ts", seconds(12_000+(i/5*50+j)*10), "cm", 80, "vind", s.between(0, 30))
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(10_000)
					s.window("snødybde", "stasjon", key("ST", s.IntN(5)), "ts", seconds(from), seconds(from+1440))
				}},
			},
		},
		{
			name: "noise", service: "airport", pays: "bucket",
			why: "levels are read by range, and the office corrects and looks up single ones, which a packed block cannot do",
			colls: []coll{{name: "noise", n: 6000, indexes: []string{"microphone,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(80, i), "microphone", key("M", i%10), "at", minute(i/10), "db", g.between(40, 110), "cause", nil)
			}}},
			traffic: []requests{
				{20, func(s *session, i int) {
					s.insert("noise", batch(30, func(j int) bson.D {
						return d("_id", uuid(81, i*30+j), "microphone", key("M", i%10), "at", minute(600+i/10*30+j),
							"db", s.between(40, 110), "cause", nil)
					})...)
				}},
				{120, func(s *session, _ int) {
					from := s.IntN(500)
					s.window("noise", "microphone", key("M", s.IntN(10)), "at", minute(from), minute(from+60))
				}},
				{40, func(s *session, _ int) {
					s.update("noise", d("_id", uuid(80, s.IntN(6000))), d("$set", d("cause", s.of("thunder", "truck"), "db", 60)))
				}},
				{30, func(s *session, _ int) {
					s.find("noise", d("microphone", key("M", s.IntN(10)), "db", d("$gt", 107)),
						by{limit: 20})
				}},
			},
		},
		{
			name: "minibares", service: "hotel", pays: "bucket|series", fine: "relation|subset",
			why: "each room has its consumption in one array by time, without an end, and a stay reads its range of it",
			colls: []coll{{name: "minibares", n: 120, doc: func(g gen, i int) bson.D {
				return d("_id", key("Q", i), "consumo", list(g.between(300, 500), func(j int) any {
					return d("quando", at(j*17), "item", g.of("água", "cerveja", "chocolate"), "cêntimos", g.between(100, 900))
				}))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					from := s.IntN(5000)
					in := d("$and", a{d("$gte", a{"$$c.quando", at(from)}), d("$lt", a{"$$c.quando", at(from + 96)})})
					s.aggregate("minibares", match("_id", key("Q", s.IntN(120))),
						d("$project", d("consumo", d("$filter", d("input", "$consumo", "as", "c", "cond", in)))))
				}},
				{80, func(s *session, i int) {
					s.update("minibares", d("_id", key("Q", s.IntN(120))),
						d("$push", d("consumo", d("quando", at(8600+i), "item", "água", "cêntimos", 200))))
				}},
			},
		},
		{
			name: "심박수", service: "gym", pays: "bucket",
			why: "watches send a value again after a lost answer, so it has a device and a number, and workouts are read by range",
			colls: []coll{{name: "심박수", n: 6000, indexes: []string{"기기,번호", "기기,시각"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(83, i), "기기", i%8, "번호", i/8, "시각", minute(i/8), "박동", g.between(50, 190))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.upsert("심박수", d("기기", i%8, "번호", 740+i/8), d("$set", d("시각", minute(740+i/8), "박동", s.between(50, 190))))
				}},
				{140, func(s *session, _ int) {
					from := s.IntN(650)
					s.window("심박수", "기기", s.IntN(8), "시각", minute(from), minute(from+60))
				}},
			},
		},
		{
			name: "hűtők", service: "pharmacy", pays: "bucket",
			why: "fridges are read by range, single values above eight degrees are searched, and a reason is noted in them",
			colls: []coll{{name: "hűtők", n: 6000, indexes: []string{"hűtő,mérve", "fok"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(84, i), "hűtő", int32(i%12), "mérve", minute(i/12*5), "fok", float64(g.between(20, 85))/10)
			}}},
			traffic: []requests{
				{20, func(s *session, i int) {
					s.insert("hűtők", batch(12, func(j int) bson.D {
						return d("hűtő", int32(i%12), "mérve", minute(2500+(i/12*12+j)*5), "fok", float64(s.between(20, 85))/10)
					})...)
				}},
				{130, func(s *session, _ int) {
					from := s.IntN(2000)
					s.window("hűtők", "hűtő", int32(s.IntN(12)), "mérve", minute(from), minute(from+360))
				}},
				{40, func(s *session, _ int) {
					s.find("hűtők", d("hűtő", int32(s.IntN(12)), "fok", d("$gt", 8)), by{limit: 10})
				}},
				{30, func(s *session, _ int) {
					s.update("hűtők", d("_id", oid(84, s.IntN(6000))), d("$set", d("ok", s.text(15))))
				}},
			},
		},
		{
			name: "punnitukset", service: "warehouse", pays: "bucket",
			why: "weighings of a scale are drawn by range, and wrong ones are taken out or corrected one by one",
			colls: []coll{{name: "punnitukset", n: 6000, indexes: []string{"vaaka,hetki"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(32, i), "vaaka", i%6, "hetki", minute(i/6), "kg", g.money(), "kuka", g.IntN(40))
			}}},
			traffic: []requests{
				{20, func(s *session, i int) {
					s.insert("punnitukset", batch(15, func(j int) bson.D {
						return d("_id", snow(32, 10_000+i*15+j), "vaaka", i%6, "hetki", minute(1000+i/6*15+j), "kg", s.money(), "kuka", 1)
					})...)
				}},
				{120, func(s *session, _ int) {
					from := s.IntN(900)
					s.window("punnitukset", "vaaka", s.IntN(6), "hetki", minute(from), minute(from+90))
				}},
				{30, func(s *session, _ int) {
					s.update("punnitukset", d("_id", snow(32, s.IntN(3000))), d("$set", d("kg",
						s.money())))
				}},
				{20, func(s *session, i int) { s.remove("punnitukset", d("_id", snow(32, 4000+i*31))) }},
			},
		},
		{
			name: "havaleler", service: "payroll",
			why: "transfers have a time, but each is looked up alone by its _id, for which the manuals keep plain documents",
			colls: []coll{{name: "havaleler", n: 4000, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(82, i), "hesap", i%20, "an", minute(i), "kuruş", g.between(100, 900_000),
					"durum", g.of("gitti", "bekliyor"))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("havaleler", d("_id", uuid(82, s.IntN(4000))), nil) }},
				{40, func(s *session, i int) {
					s.insert("havaleler", d("_id", uuid(83, i), "hesap", i%20, "an", minute(5000+i), "kuruş", 100, "durum", "bekliyor"))
				}},
			},
		},
		{
			name: "혼잡도", service: "gym", harm: "series", fine: "bucket",
			why: "the number of people in a hall is set again and again for its minute, which is for slots, and series only appends",
			colls: []coll{{name: "혼잡도", n: 4000, indexes: []string{"구역,분"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(85, i), "구역", i%8, "분", minute(i/8), "명", g.IntN(60))
			}}},
			traffic: []requests{
				{160, func(s *session, i int) {
					s.upsert("혼잡도", d("구역", i%8, "분", minute(500+i/80)), d("$set", d("명", s.IntN(60))))
				}},
				{120, func(s *session, _ int) { s.one("혼잡도", d("구역", s.IntN(8), "분", minute(s.IntN(500))), nil) }},
			},
		},
		{
			name: "радиация", service: "satellite", harm: "series",
			why: "programs filter and group the doses of all craft on the server by value and place, which cannot look into a block",
			colls: []coll{{name: "радиация", n: 5000, indexes: []string{"доза"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(33, i), "аппарат", i%50, "время", minute(i/50), "доза", g.near(1000),
					"широта", g.between(-9, 9)*10)
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("радиация", match("доза", d("$gt", s.between(500, 900))), d("$group", d("_id",
						"$широта", "макс", d("$max", "$доза"))))
				}},
				{60, func(s *session, i int) {
					s.insert("радиация", batch(2, func(j int) bson.D {
						return d("_id", snow(33, 9000+i*2+j), "аппарат", i%50, "время", minute(200+i), "доза", s.near(1000), "широта", 10)
					})...)
				}},
			},
		},
		{
			name: "odečty", service: "brewery", harm: "series|bucket",
			why: "a water meter is read once a year, so that no window has the ten values from which a bucket pays",
			colls: []coll{{name: "odečty", n: 2000, indexes: []string{"vodomer,den"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "vodomer", key("V", i%250), "den", at(0).AddDate(i/250-8, 0, 0), "m3", g.between(10, 9000))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.window("odečty", "vodomer", key("V", s.IntN(250)), "den", at(0).AddDate(-5, 0, 0), at(0))
				}},
			},
		},
		{
			name: "pedidos", service: "hotel", harm: "series|bucket",
			why: "orders to a room have lines and a state that changes until they are paid, so they are no measurements",
			colls: []coll{{name: "pedidos", n: 3000, indexes: []string{"quarto,feito"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(86, i), "quarto", key("Q", i%300), "feito", at(i*2),
					"estado", g.of("novo", "entregue", "pago"), "garçom", g.name(),
					"linhas", list(g.between(1, 5), func(int) any { return d("prato", g.text(12), "cêntimos", g.between(300, 4000)) }))
			}}},
			traffic: []requests{
				{90, func(s *session, _ int) {
					from := s.IntN(4000)
					s.window("pedidos", "quarto", key("Q", s.IntN(300)), "feito", at(from), at(from+2000))
				}},
				{120, func(s *session, _ int) {
					s.update("pedidos", d("_id", oid(86, s.IntN(3000))), d("$set", d("estado", s.of("entregue", "pago"),
						"garçom", s.name())))
				}},
			},
		},
		{
			name: "erregistroa", service: "translation",
			why: "the log of logins is only written, one document at a time, and nobody reads it",
			colls: []coll{{name: "erregistroa", n: 3000, doc: func(g gen, i int) bson.D {
				return d("_id", oid(87, i), "nork", g.IntN(80), "noiz", minute(i), "nondik", g.text(12))
			}}},
			traffic: []requests{
				{150, func(s *session, i int) {
					s.insert("erregistroa", d("nork", s.IntN(80), "noiz", minute(4000+i), "nondik", s.text(12)))
				}},
			},
		},
		{
			name: "vergiler", service: "payroll",
			why: "the tax bands of a year are a handful of small documents that every calculation reads as they are",
			colls: []coll{{name: "vergiler", n: 80, indexes: []string{"yıl"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(88, i), "yıl", 2010+i/5, "dilim", i%5, "yüzde", 15+i%5*5)
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) { s.find("vergiler", d("yıl", 2010+s.IntN(16)), by{sort: d("dilim", 1)}) }},
			},
		},
		{
			name: "ŝablonoj", service: "wiki",
			why: "a template is read by its name and replaced whole by one editor, for which the documentation says ReplaceOne",
			colls: []coll{{name: "ŝablonoj", n: 500, doc: func(g gen, i int) bson.D {
				return d("_id", key("ŝablono", i), "teksto", g.text(600), "ŝanĝita", at(i))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("ŝablonoj", d("_id", key("ŝablono", s.IntN(500))), nil) }},
				{20, func(s *session, i int) {
					s.save("ŝablonoj", d("_id", key("ŝablono", s.IntN(500)), "teksto", s.text(600), "ŝanĝita", at(900+i)))
				}},
			},
		},
	}
}
