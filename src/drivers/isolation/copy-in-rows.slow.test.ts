import { importsOfRows } from './copy-in-rows.fixture.ts'
import { SLOW_OWNERS } from './copy-rows.fixture.ts'

importsOfRows(SLOW_OWNERS)
