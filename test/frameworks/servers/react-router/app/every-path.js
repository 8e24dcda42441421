/** Every path of the application, as a resource route of React Router. */
import { handle } from '../tenancy.js'

const route = ({ request }) => handle(request)

export { route as action, route as loader }
