import { entriesOf, QUIET_OWNER } from './enter-rows.fixture.ts'
import { SLOW_OWNERS } from './rows.fixture.ts'

entriesOf([...SLOW_OWNERS, QUIET_OWNER])
