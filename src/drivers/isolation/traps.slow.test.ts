import { SLOW_KINDS } from './subject.fixture.ts'
import { traps } from './traps.fixture.ts'

traps(SLOW_KINDS)
