// The list of runs to choose from is walked like any other.
import { walkLists } from "./list.js";

walkLists();
