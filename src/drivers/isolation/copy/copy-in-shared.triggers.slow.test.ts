import { importsWithTriggers } from './copy-in-shared.triggers.fixture.ts'
import { SLOW_OWNERS } from './rows.fixture.ts'

importsWithTriggers(SLOW_OWNERS)
