import { importsWithTriggers } from './copy-in-rows.triggers.fixture.ts'
import { SLOW_OWNERS } from './copy-rows.fixture.ts'

importsWithTriggers(SLOW_OWNERS)
