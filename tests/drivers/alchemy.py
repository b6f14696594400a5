"""SQLAlchemy over PyMySQL and mysqlclient, with a pool of two."""

import sys

import sqlalchemy
from sqlalchemy.orm import Session, declarative_base

from scenario import TABLES, plain, show

host, port, user, password, schema = sys.argv[1:]
Base = declarative_base()


class Item(Base):
    __tablename__ = "items"
    id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
    v = sqlalchemy.Column(sqlalchemy.String(50))


def own_writes(engine):
    stale = 0
    for number in range(50):
        with Session(engine) as session:
            item = Item(v=f"v{number}")
            session.add(item)
            session.commit()
            session.expire_all()
            found = session.get(Item, item.id)
            stale += found is None or found.v != f"v{number}"
    show("stale reads", stale)


def transactions(engine):
    with Session(engine) as session:
        session.add(Item(v="kept"))
        session.flush()
        with session.begin_nested() as savepoint:
            session.add(Item(v="undone"))
            session.flush()
            savepoint.rollback()
        session.commit()
        show("savepoint", [item.v for item in session.query(Item).filter(Item.v.in_(["kept", "undone"])).order_by(Item.id)])
        session.add(Item(id=1, v="twice"))
        try:
            session.commit()
        except sqlalchemy.exc.IntegrityError as error:
            show("error", error.orig.args)


for driver in ("pymysql", "mysqldb"):
    url = sqlalchemy.engine.URL.create(f"mysql+{driver}", user, password, host, int(port), schema, {"charset": "utf8mb4"})
    for level in ("REPEATABLE READ", "AUTOCOMMIT", "READ COMMITTED", "SERIALIZABLE"):
        engine = sqlalchemy.create_engine(url, pool_size=2, pool_pre_ping=True, isolation_level=level)
        with engine.begin() as connection:
            for statement in TABLES:
                connection.exec_driver_sql(statement.replace("%", "%%"))
            show("level", (driver, level, connection.dialect.server_version_info, connection.dialect.is_mariadb))
            text = sqlalchemy.text("SELECT * FROM typed WHERE id = :id")
            for number in (1, 2, 3):
                show("typed", [[plain(value) for value in row] for row in connection.execute(text, {"id": number})])
            show("tables", sorted(sqlalchemy.inspect(connection).get_table_names()))
            columns = sqlalchemy.inspect(connection).get_columns("typed")
            show("columns", [(column["name"], str(column["type"]), column["nullable"]) for column in columns])
        own_writes(engine)
        if level != "AUTOCOMMIT":
            transactions(engine)
        engine.dispose()
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    for number in range(1, 26):
        with engine.connect() as connection:
            show("read", connection.execute(sqlalchemy.text("SELECT n FROM numbers WHERE n = :n"), {"n": number}).all())
    with engine.connect().execution_options(stream_results=True) as connection:
        show("streamed", sum(connection.execute(sqlalchemy.text("SELECT n FROM numbers")).scalars()))
    engine.dispose()
print("end")
