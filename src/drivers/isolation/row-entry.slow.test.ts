import { SLOW_OWNERS } from './copy-rows.fixture.ts'
import { entriesOf, QUIET_OWNER } from './row-entry.fixture.ts'

entriesOf([...SLOW_OWNERS, QUIET_OWNER])
