import { importsFromSqlite } from './from-sqlite.fixture.ts'

importsFromSqlite(['a superuser'])
