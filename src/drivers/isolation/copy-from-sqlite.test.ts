import { importsFromSqlite } from './copy-from-sqlite.fixture.ts'

importsFromSqlite(['an owner like any other'])
