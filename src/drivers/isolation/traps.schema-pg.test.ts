import { traps } from './traps.fixture.ts'

traps(['schema-pg, batch'])
