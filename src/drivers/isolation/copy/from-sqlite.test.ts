import { importsFromSqlite } from './from-sqlite.fixture.ts'

importsFromSqlite(['an owner like any other'])
