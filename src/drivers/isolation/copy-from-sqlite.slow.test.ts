import { importsFromSqlite } from './copy-from-sqlite.fixture.ts'

importsFromSqlite(['a superuser'])
