import { importsOfRows } from './copy-in-shared.fixture.ts'
import { SLOW_OWNERS } from './rows.fixture.ts'

importsOfRows(SLOW_OWNERS)
