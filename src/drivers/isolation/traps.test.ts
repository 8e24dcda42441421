import { FAST_KINDS, KINDS } from './subject.fixture.ts'
import { traps } from './traps.fixture.ts'

traps(FAST_KINDS.filter((kind) => KINDS[kind]?.engine === 'postgres'))
