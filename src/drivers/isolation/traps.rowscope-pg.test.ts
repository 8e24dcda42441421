import { traps } from './traps.fixture.ts'

traps(['rowscope-pg, batch'])
