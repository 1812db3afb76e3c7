// What was found is there already; here it is only walked through.
import { walkLists } from "./list.js";

walkLists();
