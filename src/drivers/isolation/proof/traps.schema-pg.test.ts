import { endingTraps } from './traps.endings.fixture.ts'
import { traps } from './traps.fixture.ts'
import { serverTraps } from './traps.servers.fixture.ts'

const KINDS = ['schema-pg, batch']

traps(KINDS)
serverTraps(KINDS)
endingTraps(KINDS)
