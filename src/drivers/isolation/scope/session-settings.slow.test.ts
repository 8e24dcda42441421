import { SLOW_KINDS } from '../proof/subject.fixture.ts'
import { sessionSettings } from './session-settings.fixture.ts'

sessionSettings(SLOW_KINDS)
