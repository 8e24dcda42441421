import { SLOW_KINDS } from './subject.fixture.ts'
import { endingTraps } from './traps.endings.fixture.ts'
import { traps } from './traps.fixture.ts'
import { serverTraps } from './traps.servers.fixture.ts'

traps(SLOW_KINDS)
serverTraps(SLOW_KINDS)
endingTraps(SLOW_KINDS)
