//! The codec against packets captured from real servers and clients, cut at every byte, and against
//! generated values around the lengths where the encoding changes.

use mysql_common::constants::CapabilityFlags;
use proptest::prelude::*;

use super::{
    Capabilities, Malformed, StatusFlags,
    auth::{AuthPacket, AuthSwitch},
    change_user::ChangeUser,
    command::Answer,
    err::{ErrPacket, SqlError},
    framed::Framed,
    greeting::{FirstPacket, Greeting},
    header::{Header, MAX_PACKET, Walk},
    login::{FirstAnswer, Login},
    ok::{OkPacket, Tracker},
    query,
    reader::Reader,
    response::{Event, Kind, Scanner},
    writer::{PutField, put_packet},
};

/// Lengths at which the encoding of lengths changes, and their neighbours.
const BOUNDARIES: [usize; 12] =
    [0, 1, 250, 251, 252, 65_535, 65_536, 65_537, (1 << 24) - 2, (1 << 24) - 1, 1 << 24, (1 << 24) + 1];

/// MariaDB 10.11.19's greeting.
const MARIADB_GREETING: &[u8] = b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1-log\0\x02\x01\0\0#$+ImiHi\0\xfe\xf7\x08\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0\\m2Py3/2LgCX\0mysql_native_password\0";

/// The same, from its client's answer: MariaDB's connector, no password.
const MARIADB_LOGIN: &[u8] = b"\x84\xa2\xbf\0\0\0\0\x01\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x1d\0\0\0root\0\0mysql_native_password\0\x11\x03_os\x05Linux\x04_pid\x011";

/// MariaDB's answer to a SET NAMES inside a stored program: three variables in one entry.
const MARIADB_OK: &[u8] = b"\0\0\0\x22\x40\0\0\0\x62\x00\x1d\x14character_set_client\x07utf8mb4\0\x21\x18character_set_connection\x07utf8mb4\0\x1e\x15character_set_results\x07utf8mb4";

fn plain() -> Capabilities {
    let flags = CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_PLUGIN_AUTH
        | CapabilityFlags::CLIENT_LONG_PASSWORD;
    Capabilities { flags, mariadb: mysql_common::constants::MariadbCapabilities::empty() }
}

fn modern() -> Capabilities {
    plain().with(CapabilityFlags::CLIENT_DEPRECATE_EOF | CapabilityFlags::CLIENT_SESSION_TRACK)
}

/// Every parser, on every prefix of `bytes`: an error is fine, a panic is not.
fn parse_everything(bytes: &[u8]) {
    for end in 0..=bytes.len() {
        let cut = &bytes[..end];
        let _ = FirstPacket::parse(cut);
        let _ = FirstAnswer::parse(cut);
        let _ = AuthPacket::parse(cut);
        let _ = ErrPacket::parse(cut);
        if let Ok(ok) = OkPacket::parse(cut) {
            let mut trackers = ok.trackers();
            while let Ok(Some(entry)) = trackers.next_entry() {
                let _ = entry.for_each(|_| {});
            }
        }
        for capabilities in [plain(), modern(), modern().with(CapabilityFlags::all())] {
            let _ = ChangeUser::parse(cut, capabilities);
            let _ = query::text(cut, capabilities);
            for answer in
                [Answer::Results, Answer::CursorOrResults, Answer::Single, Answer::Prepared, Answer::Rows]
            {
                scan_all(Scanner::new(capabilities, answer), cut);
            }
        }
    }
}

/// Runs a scanner over `bytes`; gives what it passed, what it showed, and whether it came to the end.
fn scan_all(mut scanner: Scanner, bytes: &[u8]) -> (usize, Vec<Kind>, bool) {
    let (mut at, mut kinds) = (0, Vec::new());
    loop {
        match scanner.next(&bytes[at..]) {
            Ok(Event::Pass(len)) => at += len,
            Ok(Event::Packet { kind, len }) => {
                kinds.push(kind);
                at += len;
            }
            Ok(Event::NeedMore) | Err(_) => return (at, kinds, scanner.is_done()),
        }
        assert!(at <= bytes.len());
    }
}

#[test]
fn mariadbs_greeting_is_read_and_written_byte_for_byte() {
    let greeting = Greeting::parse(MARIADB_GREETING).unwrap();
    assert_eq!(greeting.version, b"5.5.5-10.11.19-MariaDB-0+deb12u1-log");
    assert_eq!(greeting.connection_id, 0x102);
    assert_eq!(&greeting.nonce, b"#$+ImiHi\\m2Py3/2LgCX");
    assert_eq!(greeting.plugin, b"mysql_native_password");
    assert!(greeting.capabilities.cache_metadata());
    let mut written = Vec::new();
    greeting.put(&mut written);
    assert_eq!(written, MARIADB_GREETING);
    for end in 0..MARIADB_GREETING.len() - greeting.plugin.len() - 1 {
        assert!(Greeting::parse(&MARIADB_GREETING[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn a_refusal_instead_of_a_greeting_is_read() {
    let payload = SqlError::too_many_connections().to_payload();
    let Ok(FirstPacket::Refused(err)) = FirstPacket::parse(&payload) else { panic!("not a refusal") };
    assert_eq!((err.code, err.sqlstate, err.message), (1040, &b"08004"[..], &b"Too many connections"[..]));
}

#[test]
fn mariadbs_login_is_read_and_written_byte_for_byte() {
    let Ok(FirstAnswer::Login(login)) = FirstAnswer::parse(MARIADB_LOGIN) else { panic!("not a login") };
    assert_eq!(login.user, b"root");
    assert!(login.auth.is_empty() && login.schema.is_empty());
    assert_eq!(login.attributes, b"\x03_os\x05Linux\x04_pid\x011");
    let mut written = Vec::new();
    login.put(&mut written);
    assert_eq!(written, MARIADB_LOGIN);
    assert!(Login::parse(&MARIADB_LOGIN[..30]).is_err());
}

#[test]
fn a_request_for_tls_is_told_from_a_login() {
    let Ok(FirstAnswer::Login(mut login)) = FirstAnswer::parse(MARIADB_LOGIN) else { panic!("not a login") };
    login.capabilities = login.capabilities.with(CapabilityFlags::CLIENT_SSL);
    let mut request = Vec::new();
    login.put_tls_request(&mut request);
    assert!(matches!(FirstAnswer::parse(&request), Ok(FirstAnswer::Tls)));
    login.put(&mut request);
    assert!(matches!(FirstAnswer::parse(&request[32..]), Ok(FirstAnswer::Login(_))));
}

#[test]
fn session_state_is_read_with_several_variables_in_one_entry() {
    let ok = OkPacket::parse(MARIADB_OK).unwrap();
    let mut seen = Vec::new();
    let mut trackers = ok.trackers();
    while let Some(entry) = trackers.next_entry().unwrap() {
        entry
            .for_each(|tracker| {
                if let Tracker::Variable { name, value } = tracker {
                    seen.push((name.to_vec(), value.to_vec()));
                }
            })
            .unwrap();
    }
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|(name, value)| name.starts_with(b"character_set_") && value == b"utf8mb4"));
    let mut written = Vec::new();
    ok.put(&mut written);
    assert_eq!(written, MARIADB_OK);
    for end in 0..MARIADB_OK.len() {
        assert!(OkPacket::parse(&MARIADB_OK[..end]).is_err(), "cut at {end}");
    }
    written.clear();
    OkPacket { state: &[], ..ok }.put(&mut written);
    assert_eq!(written, b"\0\0\0\x22\0\0\0");
}

#[test]
fn a_result_that_failed_inside_a_stored_program_goes_on_with_its_error() {
    // MySQL 9.7.4: CALL of a procedure that selects from a function, whose error a handler raises again.
    let stream =
        b"\x01\0\0\x01\x01\x1e\0\0\x02\x03def\0\0\0\x04f1()\x04f1()\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0\
        \x05\0\0\x03\xfe\0\0\x0a\0\x0d\0\0\x04\xff\x7a\x04#42S02None";
    let (passed, kinds, done) = scan_all(Scanner::new(modern(), Answer::Results), stream);
    let more = StatusFlags::SERVER_STATUS_AUTOCOMMIT | StatusFlags::SERVER_MORE_RESULTS_EXISTS;
    assert_eq!((passed, kinds, done), (stream.len(), vec![Kind::End(more), Kind::Err], true));
}

#[test]
fn gtids_are_read() {
    let packet = b"\0\x01\0\x02\x40\0\0\0\x07\x03\x05\x00\x03u:1";
    let ok = OkPacket::parse(packet).unwrap();
    let entry = ok.trackers().next_entry().unwrap().unwrap();
    let mut gtids = Vec::new();
    entry.for_each(|tracker| gtids.push(format!("{tracker:?}"))).unwrap();
    assert_eq!(gtids, [format!("{:?}", Tracker::Gtids(b"u:1"))]);
}

#[test]
fn captured_packets_cut_anywhere_panic_nowhere() {
    let ok = b"\0\x01\0\x02\x40\0\0\0\x07\x03\x05\x00\x03u:1";
    let mut stream = Vec::new();
    put_packet(&mut stream, 1, MARIADB_OK);
    for bytes in [MARIADB_GREETING, MARIADB_LOGIN, MARIADB_OK, ok, &stream] {
        parse_everything(bytes);
    }
}

#[test]
fn authentication_switches_are_read_and_written() {
    let switch = AuthSwitch { plugin: b"mysql_native_password", data: b"01234567890123456789\0" };
    let mut payload = Vec::new();
    switch.put(&mut payload);
    assert_eq!(AuthPacket::parse(&payload), Ok(AuthPacket::Switch(switch)));
    assert_eq!(AuthPacket::parse(b"\x01\x04"), Ok(AuthPacket::More(b"\x04")));
    assert_eq!(
        AuthPacket::parse(b"\xfe"),
        Err(Malformed::Invalid("the server asks for authentication from before 4.1"))
    );
    assert!(AuthPacket::parse(b"").is_err());
}

#[test]
fn query_attributes_are_skipped() {
    let capabilities = plain().with(CapabilityFlags::CLIENT_QUERY_ATTRIBUTES);
    assert_eq!(query::text(b"\x03SELECT 1", plain()), Ok(&b"SELECT 1"[..]));
    assert_eq!(query::text(b"\x03\x00\x01SELECT 1", capabilities), Ok(&b"SELECT 1"[..]));
    // Two attributes, the first of them NULL: BIGINT `n`, VARCHAR `s` = 'x'.
    let payload = b"\x03\x02\x01\x01\x01\x08\0\x01n\xfd\0\x01s\x01xSELECT 1";
    assert_eq!(query::text(payload, capabilities), Ok(&b"SELECT 1"[..]));
    for end in 0..payload.len() - 8 {
        assert!(query::text(&payload[..end], capabilities).is_err(), "cut at {end}");
    }
    let mut own = Vec::new();
    query::put(&mut own, capabilities, b"SELECT 1");
    assert_eq!(own, b"\x03\x00\x01SELECT 1");
}

#[test]
fn lengths_are_written_in_their_shortest_form_and_read_back() {
    for len in BOUNDARIES {
        let value = len as u64;
        let mut out = Vec::new();
        out.put_lenenc_int(value);
        let size = match len {
            0..=250 => 1,
            251..=65_535 => 3,
            65_536..=16_777_215 => 4,
            _ => 9,
        };
        assert_eq!(out.len(), size, "{len}");
        assert_eq!(Reader::new(&out).lenenc_int("n"), Ok(value));
        for end in 0..size {
            assert_eq!(Reader::new(&out[..end]).lenenc_int("n"), Err(Malformed::Truncated("n")));
        }
        let text = vec![b'x'; len];
        out.clear();
        out.put_lenenc_bytes(&text);
        assert_eq!(Reader::new(&out).lenenc_bytes("s"), Ok(&text[..]));
        if len > 0 {
            assert!(Reader::new(&out[..out.len() - 1]).lenenc_bytes("s").is_err());
        }
    }
    for bad in [b"\xfb", b"\xff"] {
        assert!(matches!(Reader::new(bad).lenenc_int("n"), Err(Malformed::Invalid(_))));
    }
}

#[tokio::test]
async fn payloads_of_boundary_lengths_travel_in_the_right_packets() {
    for len in BOUNDARIES.into_iter().chain([2 * MAX_PACKET, 2 * MAX_PACKET + 1]) {
        let payload: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0]).collect();
        let mut stream = Vec::new();
        let next_seq = put_packet(&mut stream, 254, &payload);
        let packets = len / MAX_PACKET + 1;
        assert_eq!(stream.len(), len + packets * Header::LEN);
        assert_eq!(usize::from(next_seq), (254 + packets) % 256);
        let mut framed = Framed::new(&stream[..]);
        let packet = framed.read_packet(usize::MAX).await.unwrap();
        assert!(packet.payload == payload, "payload of {len} bytes");
        assert_eq!(packet.next_seq, next_seq);
        if len > 0 {
            assert!(Framed::new(&stream[..]).read_packet(len - 1).await.is_err());
            assert!(Framed::new(&stream[..stream.len() - 1]).read_packet(len).await.is_err());
        }
        let header = Header::peek(&stream).unwrap();
        let mut walk = Walk::new(header);
        assert_eq!(walk.advance(&stream[Header::LEN..]), Ok(stream.len() - Header::LEN));
        assert!(walk.is_done());
    }
}

#[test]
fn a_continuation_out_of_order_is_refused() {
    let mut stream = Vec::new();
    put_packet(&mut stream, 7, &vec![0; MAX_PACKET]);
    let at = Header::LEN + MAX_PACKET + 3;
    stream[at] = 7;
    let mut walk = Walk::new(Header::peek(&stream).unwrap());
    let refused = walk.advance(&stream[Header::LEN..]);
    assert_eq!(refused, Err(Malformed::OutOfOrder { expected: 8, received: 7 }));
}

/// A result set of `rows` for [`plain`] or [`modern`] capabilities, with one column.
fn result_set(capabilities: Capabilities, seq: &mut u8, rows: &[Vec<u8>], status: StatusFlags) -> Vec<u8> {
    let mut out = Vec::new();
    let eof = [&[0xFE, 0, 0][..], &status.bits().to_le_bytes()].concat();
    let mut put = |payload: &[u8]| *seq = put_packet(&mut out, *seq, payload);
    put(&[1]);
    put(b"\x03def\0\0\0\x011\0\x0c\x3f\0\x01\0\0\0\x08\x81\0\0\0\0");
    if !capabilities.deprecate_eof() {
        put(&eof);
    }
    for row in rows {
        let mut payload = Vec::new();
        payload.put_lenenc_bytes(row);
        put(&payload);
    }
    if capabilities.deprecate_eof() {
        let mut payload = Vec::new();
        OkPacket {
            header: 0xFE,
            affected_rows: 0,
            last_insert_id: 0,
            status,
            warnings: 0,
            info: &[],
            state: &[],
        }
        .put(&mut payload);
        put(&payload);
    } else {
        put(&eof);
    }
    out
}

#[test]
fn rows_that_look_like_ends_are_rows() {
    for capabilities in [plain(), modern()] {
        // Rows whose first byte is that of EOF and OK packets: a value of 2^24 bytes and more begins with
        // 0xFE, an empty one with 0x00.
        let rows = vec![vec![], vec![b'x'; MAX_PACKET + 1], vec![b'y'; 250], vec![b'z'; 251]];
        let stream = result_set(capabilities, &mut 1, &rows, StatusFlags::empty());
        let (passed, kinds, done) = scan_all(Scanner::new(capabilities, Answer::Results), &stream);
        assert!(done && passed == stream.len());
        assert_eq!(kinds, [Kind::End(StatusFlags::empty())]);
    }
}

#[test]
fn a_file_is_asked_for_and_the_answer_goes_on() {
    let mut stream = Vec::new();
    put_packet(&mut stream, 1, b"\xfb/tmp/x");
    let mut scanner = Scanner::new(plain(), Answer::Results);
    let len = stream.len();
    assert_eq!(scanner.next(&stream), Ok(Event::Packet { kind: Kind::LocalInfile, len }));
    assert!(!scanner.is_done());
    let mut ok = Vec::new();
    // The number goes on behind the client's packets.
    put_packet(&mut ok, 4, b"\0\x01\0\x02\0\0\0");
    assert!(matches!(scanner.next(&ok), Ok(Event::Packet { kind: Kind::End(_), .. })));
    assert!(scanner.is_done());
}

#[test]
fn prepare_answers_end_behind_their_definitions() {
    let definition = b"\x03def\0\0\0\x01?\0\x0c\x3f\0\0\0\0\0\xfd\x80\0\0\0\0";
    for (capabilities, eofs) in [(plain(), 2), (modern(), 0)] {
        let (mut stream, mut seq) = (Vec::new(), 1);
        let mut put = |payload: &[u8]| seq = put_packet(&mut stream, seq, payload);
        put(b"\0\x01\0\0\0\x01\0\x02\0\0\0\0");
        for part in 0..2 {
            for _ in 0..2 - part {
                put(definition);
            }
            if eofs > 0 {
                put(b"\xfe\0\0\x02\0");
            }
        }
        let (passed, kinds, done) = scan_all(Scanner::new(capabilities, Answer::Prepared), &stream);
        assert_eq!((passed, kinds, done), (stream.len(), vec![Kind::Prepared], true));
    }
}

#[test]
fn cursors_inside_stored_programs_are_not_the_clients() {
    let status = StatusFlags::SERVER_STATUS_CURSOR_EXISTS;
    let stream = result_set(plain(), &mut 1, &[b"a".to_vec()], status);
    let whole = scan_all(Scanner::new(plain(), Answer::Results), &stream);
    assert_eq!(whole, (stream.len(), vec![Kind::End(status)], true));
    // With a cursor asked for, the answer ends behind the column definitions.
    let (passed, _, done) = scan_all(Scanner::new(plain(), Answer::CursorOrResults), &stream);
    assert!(done && passed < stream.len());
}

#[test]
fn a_progress_report_ends_nothing() {
    let mut stream = Vec::new();
    put_packet(&mut stream, 1, b"\xff\xff\xff\x01\x01\x02\0\0\0\x04text");
    put_packet(&mut stream, 2, b"\0\0\0\x02\0\0\0");
    let mut capabilities = plain();
    capabilities.mariadb = mysql_common::constants::MariadbCapabilities::MARIADB_CLIENT_PROGRESS;
    let (passed, kinds, done) = scan_all(Scanner::new(capabilities, Answer::Results), &stream);
    assert_eq!((passed, kinds.len(), done), (stream.len(), 1, true));
    // SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 65535
    let mut stream = Vec::new();
    put_packet(&mut stream, 1, b"\xff\xff\xff#HY000text");
    for capabilities in [plain(), capabilities] {
        let whole = scan_all(Scanner::new(capabilities, Answer::Results), &stream);
        assert_eq!(whole, (stream.len(), vec![Kind::Err], true));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However an answer is cut into pieces, the scanner sees the same.
    #[test]
    fn answers_in_pieces_of_any_size_are_the_same_answer(
        modern_client in any::<bool>(),
        results in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6), 1..4),
        cuts in prop::collection::vec(1_usize..700, 1..40),
    ) {
        let capabilities = if modern_client { modern() } else { plain() };
        let (mut stream, mut seq) = (Vec::new(), 1);
        for (at, rows) in results.iter().enumerate() {
            let more = at + 1 < results.len();
            let status = if more { StatusFlags::SERVER_MORE_RESULTS_EXISTS } else { StatusFlags::empty() };
            stream.extend(result_set(capabilities, &mut seq, rows, status));
        }
        let mut scanner = Scanner::new(capabilities, Answer::Results);
        let (mut buffer, mut kinds, mut rest) = (Vec::new(), 0, &stream[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, tail) = rest.split_at((*cut).min(rest.len()));
            rest = tail;
            buffer.extend_from_slice(piece);
            loop {
                let len = match scanner.next(&buffer).unwrap() {
                    Event::Pass(len) => len,
                    Event::Packet { len, .. } => { kinds += 1; len }
                    Event::NeedMore => break,
                };
                buffer.drain(..len);
            }
            prop_assert_eq!(scanner.is_done(), rest.is_empty() && buffer.is_empty());
        }
        prop_assert!(scanner.is_done());
        prop_assert_eq!(kinds, results.len());
    }

    #[test]
    fn any_bytes_panic_nowhere(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        parse_everything(&bytes);
        let mut stream = Vec::new();
        put_packet(&mut stream, 1, &bytes);
        parse_everything(&stream);
    }

    #[test]
    fn logins_survive_the_round_trip(
        user in "[a-z]{0,40}", schema in "[a-z]{0,40}",
        auth in prop::collection::vec(any::<u8>(), 0..255),
        attributes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let capabilities = plain().with(
            CapabilityFlags::CLIENT_CONNECT_WITH_DB | CapabilityFlags::CLIENT_CONNECT_ATTRS,
        );
        for capabilities in [capabilities, capabilities.with(CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)] {
            let login = Login {
                capabilities,
                max_packet: 1 << 24,
                collation: 45,
                user: user.clone().into_bytes(),
                auth: auth.clone(),
                schema: schema.clone().into_bytes(),
                plugin: b"caching_sha2_password".to_vec(),
                attributes: attributes.clone(),
            };
            let mut payload = Vec::new();
            login.put(&mut payload);
            prop_assert_eq!(Login::parse(&payload).unwrap(), login);
        }
    }

    #[test]
    fn changes_of_user_survive_the_round_trip(
        user in "[a-z]{0,40}", schema in "[a-z]{0,40}", auth in prop::collection::vec(any::<u8>(), 0..255),
    ) {
        let change = ChangeUser {
            user: user.into_bytes(),
            auth,
            schema: schema.into_bytes(),
            collation: Some(255),
            plugin: b"mysql_native_password".to_vec(),
            attributes: Vec::new(),
        };
        let mut payload = Vec::new();
        change.put(&mut payload, plain());
        prop_assert_eq!(ChangeUser::parse(&payload, plain()).unwrap(), change);
    }
}
