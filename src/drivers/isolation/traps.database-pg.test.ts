import { traps } from './traps.fixture.ts'

traps(['database-pg, batch'])
