import { SLOW_OWNERS } from './copy-rows.fixture.ts'
import { entriesOf } from './row-entry.fixture.ts'

entriesOf(SLOW_OWNERS)
